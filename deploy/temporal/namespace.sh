#!/bin/sh
# Makes the namespace if it is not there. Search attributes are added by the first process of Headgate.
set -eu
temporal operator namespace describe --namespace default >/dev/null 2>&1 ||
	temporal operator namespace create --namespace default --retention 720h

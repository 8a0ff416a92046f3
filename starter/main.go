// Package main is the headgate command: the processes of Headgate (dev, gateway,
// worker) and the clients of its HTTP API. Run is the whole command, so that
// tests and other programs can call it; each command is in the file of its name.
package main

import "os"

func main() { os.Exit(Run(os.Args[1:], os.Stdout, os.Stderr)) }

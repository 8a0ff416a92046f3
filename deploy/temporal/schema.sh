#!/bin/sh
# Makes the two databases of a Temporal server, or brings their tables up to the version of this image.
set -eu
tool() { database=$1; shift; temporal-sql-tool --plugin postgres12 --ep postgres -p 5432 -u temporal --db "$database" "$@"; }
for part in temporal visibility; do
	database=temporal
	if [ "$part" = visibility ]; then database=temporal_visibility; fi
	tool "$database" create
	tool "$database" setup-schema -v 0.0
	tool "$database" update-schema -d "/etc/temporal/schema/postgresql/v12/$part/versioned"
done

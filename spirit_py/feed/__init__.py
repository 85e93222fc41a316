"""From events to the applier: what waits, what may be dropped, what is safe to resume from."""

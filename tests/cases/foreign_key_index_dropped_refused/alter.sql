DROP INDEX own, ADD INDEX other (v, p)

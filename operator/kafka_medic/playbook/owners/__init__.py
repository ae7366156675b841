"""Topics that others describe: their operator is kept off, then gets its topics back as its objects say by then."""

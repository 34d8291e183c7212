"""Web server with strict parsing, buffered requests and limits for slow clients."""

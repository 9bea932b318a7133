"""Serves MCP over Streamable HTTP: many callers, many tenants, any number of workers on one journal."""

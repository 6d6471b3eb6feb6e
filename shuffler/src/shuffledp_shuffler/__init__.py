"""One mix node: accept, spool, peel, permute, relay."""

"""The store on Redis (>= 7) or Valkey (>= 7.2): one Lua file per verb, one multiplexed connection per loop."""

"""What a user of the server must be allowed to do."""

KEYS = "~inturn:*"


CHANNELS = "&inturn:*"


LINK = ["+time", "+ssubscribe", "+evalsha", "+eval"]


SCRIPTS = [
    *("+spublish", "+del", "+exists", "+get", "+set", "+pexpire", "+persist", "+pttl"),
    *("+hget", "+hmget", "+hgetall", "+hset", "+hdel", "+hincrby", "+hrandfield", "+hexists", "+hkeys", "+hlen"),
    *("+rpush", "+lpop", "+lindex", "+llen", "+lrange"),
    *("+sadd", "+srem", "+srandmember", "+smembers", "+spop"),
    *(
        "+zadd",
        "+zrem",
        "+zrange",
        "+zrangebyscore",
        "+zrangebylex",
        "+zcard",
        "+zpopmin",
        "+zrank",
        "+zscan",
        "+zscore",
    ),
]


RIGHTS = [KEYS, CHANNELS, *LINK, *SCRIPTS]
"""The least that an ACL user needs, as docs/locks.md lists it (for the namespace `inturn`)."""


FOR_THE_CHECK = ["+info", "+config|get"]
"""Without these the server's settings are not checked, and a warning says so."""

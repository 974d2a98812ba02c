"""`inturn bench policies`: how soon an interrupt is felt, what a burst costs, watchers, and a cluster."""

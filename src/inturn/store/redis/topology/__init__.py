"""Redis beyond one server: cluster, sentinel, replicas."""

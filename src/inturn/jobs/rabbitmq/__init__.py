"""RabbitMQ as the transport of jobs: its queues, and the connections to it."""

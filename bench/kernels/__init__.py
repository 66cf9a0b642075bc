"""`groupd bench kernels`: our assignors beside Kafka's own, in Java, on the shapes of its JMH benchmark."""

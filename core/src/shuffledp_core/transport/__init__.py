"""Communication between parties: gRPC under mutual TLS, and MQTT announcements."""

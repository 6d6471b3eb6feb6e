"""How parties reach each other: gRPC under mutual TLS, and MQTT announcements."""

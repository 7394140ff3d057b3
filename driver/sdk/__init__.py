"""The parts every DRA driver needs: registration, plugin server, publishing, checkpoint, CDI files."""

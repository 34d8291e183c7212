"""Why a tenant got what it got, and on whose servers its tasks run."""

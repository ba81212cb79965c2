import CSystemd

/// libsystemd, loaded on first use; nil if it is not installed.
nonisolated(unsafe) let libsystemd = unsafe countdownd_systemd_load()

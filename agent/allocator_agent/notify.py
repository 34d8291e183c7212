"""Notification of systemd that the agent works, where systemd requires it."""

from __future__ import annotations

import os
import socket


def notify(state: str) -> None:
    """Send a state such as READY=1 to the socket that systemd named."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address:
        return
    if address.startswith("@"):
        address = "\0" + address[1:]
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.connect(address)
        sender.send(state.encode())

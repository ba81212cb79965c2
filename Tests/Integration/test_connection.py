"""Commands about the connection, and the order of replies."""

import pytest

from countdownd import ANY, Closed, Simple, Verbatim, eventually, request, view


def test_ping_is_answered(speaker):
    assert speaker("PING") == Simple("PONG")
    assert speaker("ping", b"\x00\xff\r\n") == b"\x00\xff\r\n"


def test_echo_repeats_its_argument(speaker):
    assert speaker("ECHO", "") == b""
    assert speaker("ECHO", b"a\r\nb") == b"a\r\nb"


def test_hello_replies_with_the_daemons_properties(client):
    reply = client("HELLO")
    assert isinstance(reply, list)
    hello = view(reply)
    assert hello["server"] == b"countdownd"
    assert hello["proto"] == 2
    assert hello["id"] == client("CLIENT", "ID")
    assert hello["modules"] == []


def test_hello_switches_the_protocol_version(client):
    assert view(client("HELLO", "3"))["proto"] == 3
    assert client("COUNTDOWN", "GET", "none") is None
    reply = client("HELLO", "2")
    assert isinstance(reply, list) and view(reply)["proto"] == 2


def test_hello_sets_the_name(client):
    assert isinstance(client("HELLO", "3", "SETNAME", "me"), dict)
    assert client("CLIENT", "GETNAME") == b"me"


def test_hello_that_fails_changes_nothing(client):
    client.error("ERR", "HELLO", "3", "SETNAME", "me", "AUTH", "default", "secret")
    client.error("ERR", "HELLO", "3", "SETNAME", "a b")
    client.error("ERR", "HELLO", "3", "NONSENSE")
    assert isinstance(client("HELLO"), list)
    assert client("CLIENT", "GETNAME") is None


@pytest.mark.parametrize("words", [["secret"], ["user", "secret"]])
def test_auth_is_refused(speaker, words):
    error = speaker.error("ERR", "AUTH", *words)
    assert "no password" in error and "secret" not in error


def test_quit_closes_the_connection(client):
    assert client("QUIT") == Simple("OK")
    with pytest.raises(Closed):
        client.receive()


def test_commands_after_quit_are_not_run(client, daemon):
    client.send_bytes(request("QUIT") + request("TIMER", "SET", "t", "1h"))
    assert client.receive() == Simple("OK")
    with pytest.raises(Closed):
        client.receive()
    assert daemon.connect()("TIMER", "GET", "t") is None


def test_select_knows_one_database(client):
    assert client("SELECT", "0") == Simple("OK")
    client.error("ERR", "SELECT", "1")


def test_reset_restores_a_new_connection(daemon, client):
    client("HELLO", "3", "SETNAME", "me")
    client.send("SUBSCRIBE", "timer:t")
    assert [client.push()[0], client.push()[0]] == [b"subscribe", b"message"]
    assert client("MONITOR") == Simple("OK")
    assert client("RESET") == Simple("RESET")
    assert isinstance(client("HELLO"), list), "it speaks RESP2 again"
    assert client("CLIENT", "GETNAME") is None
    other = daemon.connect()
    assert other("PUBSUB", "NUMSUB", "timer:t") == [b"timer:t", 0]
    other("TIMER", "SET", "t", "1h")
    assert client("PING") == Simple("PONG")


def test_reset_ends_the_backup_of_the_connection(daemon, client):
    number = client("BACKUP", "BEGIN")
    eventually(lambda: client("BACKUP", "SIZE", number), "the copy is made")
    client("RESET")
    client.error("NOTFOUND", "BACKUP", "SIZE", number)
    assert daemon.connect()("BACKUP", "BEGIN") == number + 1


# CLIENT


def test_client_setname_sets_the_name(speaker):
    assert speaker("CLIENT", "GETNAME") is None
    assert speaker("CLIENT", "SETNAME", "worker-1") == Simple("OK")
    assert speaker("CLIENT", "GETNAME") == b"worker-1"
    speaker.error("ERR", "CLIENT", "SETNAME", "two words")
    speaker.error("ERR", "CLIENT", "SETNAME", "x" * 257)
    assert speaker("CLIENT", "GETNAME") == b"worker-1"
    assert speaker("CLIENT", "SETNAME", "") == Simple("OK")
    assert speaker("CLIENT", "GETNAME") is None


def test_client_setinfo(speaker):
    assert speaker("CLIENT", "SETINFO", "LIB-NAME", "my-lib") == Simple("OK")
    assert speaker("CLIENT", "SETINFO", "lib-ver", "1.2") == Simple("OK")
    speaker.error("ERR", "CLIENT", "SETINFO", "LIB-COLOR", "red")
    assert b"lib-name=my-lib lib-ver=1.2" in speaker("CLIENT", "INFO")


def fields(line):
    return dict(word.split("=", 1) for word in line.decode().split())


def test_client_info_and_list(daemon, speaker):
    other = daemon.connect()
    other("CLIENT", "SETNAME", "other")
    other("SUBSCRIBE", "timer:x")
    text = speaker("CLIENT", "INFO")
    assert isinstance(text, Verbatim if speaker.protocol == 3 else bytes)
    own = fields(text)
    assert int(own["id"]) == speaker("CLIENT", "ID")
    assert own["resp"] == str(speaker.protocol)
    assert own["cmd"] == "client|info" or own["cmd"] == "client|id"
    listed = [fields(line) for line in speaker("CLIENT", "LIST").splitlines()]
    assert [line["name"] for line in listed] == ["", "other"]
    assert int(listed[0]["id"]) < int(listed[1]["id"])
    assert (listed[1]["flags"], listed[1]["sub"]) == ("PU", "1")
    by_type = speaker("CLIENT", "LIST", "TYPE", "pubsub").splitlines()
    assert [fields(line)["name"] for line in by_type] == ["other"]
    by_id = speaker("CLIENT", "LIST", "ID", own["id"]).splitlines()
    assert [fields(line)["id"] for line in by_id] == [own["id"]]
    speaker.error("ERR", "CLIENT", "LIST", "TYPE", "fish")


def test_client_kill_by_id(daemon, speaker):
    other = daemon.connect()
    assert speaker("CLIENT", "KILL", "ID", other("CLIENT", "ID")) == 1
    assert other.is_closed()
    assert speaker("CLIENT", "KILL", "ID", 999_999) == 0
    eventually(lambda: "connection closed: CLIENT KILL" in daemon.log, "the log says so")


def test_client_kill_by_user_spares_the_caller(daemon, client):
    others = [daemon.connect() for _ in range(3)]
    uid = fields(client("CLIENT", "INFO"))["user"]
    assert client("CLIENT", "KILL", "USER", uid) == 3
    assert all(other.is_closed() for other in others)
    assert client("CLIENT", "KILL", "UID", uid, "SKIPME", "no") == 1
    with pytest.raises(Closed):
        client.receive()


def test_client_kill_closes_a_client_that_never_reads(daemon, client):
    deaf = daemon.connect()
    deaf("CLIENT", "SETNAME", "deaf")
    deaf.send_what_fits(daemon, request("ECHO", "x" * 60_000) * 1_000)
    number = eventually(
        lambda: next(
            (
                fields(line)["id"]
                for line in client("CLIENT", "LIST").splitlines()
                if fields(line)["name"] == "deaf" and int(fields(line)["omem"]) > 0
            ),
            None,
        ),
        "it is backed up",
    )
    assert client("CLIENT", "KILL", "ID", number) == 1
    eventually(lambda: b"name=deaf" not in client("CLIENT", "LIST"), "it is gone")


def test_client_reply_turns_replies_off_and_on(client):
    data = [("OFF",), ("ON",), ("SKIP",)]
    off, on, skip = (request("CLIENT", "REPLY", *words) for words in data)
    client.send_bytes(off + request("ECHO", "a") * 100 + on + skip + request("ECHO", "b"))
    assert client.receive() == Simple("OK")
    assert client("ECHO", "c") == b"c"


# Order


def test_100000_pipelined_commands_are_answered_in_order(daemon, client):
    count = 100_000
    data = b"".join(request("ECHO", number) for number in range(count))
    client.socket.setblocking(False)
    answers, sent = 0, 0
    while answers < count:
        try:
            sent += client.socket.send(data[sent : sent + (1 << 16)]) if sent < len(data) else 0
        except BlockingIOError:
            pass
        try:
            received = client.socket.recv(1 << 20)
        except BlockingIOError:
            continue
        client.buffer += received
        end = client.buffer.rfind(b"\r\n") + 2
        # Whole replies only: $LENGTH, then the number.
        lines = bytes(client.buffer[:end]).split(b"\r\n")[:-1]
        if len(lines) % 2:
            end -= len(lines.pop()) + 2
        assert lines[1::2] == [b"%d" % (answers + i) for i in range(len(lines) // 2)]
        answers += len(lines) // 2
        del client.buffer[:end]
    assert answers == count


def test_all_kinds_of_commands_are_answered_in_order(speaker):
    words = [
        ("PING",), ("ECHO", "a"), ("NONSENSE",), ("COUNTDOWN", "START", "k"), ("DBSIZE",),
        ("COUNTDOWN", "CANCEL", "k"), ("COUNTDOWN",), ("TIMER", "SET", "t", "x"),
    ]  # fmt: skip
    speaker.send_bytes(b"".join(request(*command) for command in words) * 50)
    for _ in range(50):
        replies = [speaker.reply(ANY) for _ in words]
        assert replies[0] == Simple("PONG")
        assert replies[1] == b"a"
        assert replies[2].startswith("ERR unknown command 'NONSENSE'")
        assert view(replies[3])["key"] == b"k"
        assert replies[4:6] == [1, 1]
        assert "COUNTDOWN needs one of" in replies[6]
        assert "not a duration" in replies[7]


@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_commands_may_come_in_pieces(client, size):
    data = request("ECHO", "in pieces") + b"ECHO inline\r\n"
    for start in range(0, len(data), size):
        client.send_bytes(data[start : start + size])
    assert [client.receive(), client.receive()] == [b"in pieces", b"inline"]


# Inline commands, and clients that end their input


def test_inline_commands(client):
    client.send_bytes(b"PING\r\n\r\n  \r\nECHO \"a b\\x41\\n\"\nECHO 'it\\'s'\r\n")
    assert [client.receive() for _ in range(3)] == [Simple("PONG"), b"a bA\n", b"it's"]


@pytest.mark.parametrize("data", [b"PING\r\n", request("PING")])
def test_a_client_that_ends_its_input_gets_its_replies(daemon, data):
    for count in (1, 5_000):
        client = daemon.connect()
        client.send_bytes(data * count)
        client.end_input()
        for _ in range(count):
            assert client.receive() == Simple("PONG")
        with pytest.raises(Closed):
            client.receive()


def test_a_client_that_ends_its_input_in_the_midst_of_a_command_is_closed(client):
    client.send_bytes(b"*2\r\n$4\r\nECHO\r\n$100\r\nhalf")
    client.end_input()
    with pytest.raises(Closed):
        client.receive()


def test_a_client_that_ends_its_input_and_reads_late_gets_all_replies(daemon, client):
    # More than the sockets hold, so the daemon stops reading before it sees the end of the input.
    commands = [request("ECHO", b"%04d" % number * 1_000) for number in range(9_000)]
    sent = client.send_what_fits(daemon, b"".join(commands))
    assert sent < len(commands) * len(commands[0])
    client.end_input()
    for number in range(sent // len(commands[0])):
        assert client.receive() == b"%04d" % number * 1_000
    with pytest.raises(Closed):
        client.receive()


def test_unknown_commands_are_named(client):
    assert "'FROB'" in client.error("UNKNOWN", "FROB", "x")
    error = client.error("UNKNOWN", "COUNTDOWN", "FROB", "x")
    assert "'FROB'" in error and "START" in error
    client.error("UNKNOWN", "x" * 60_000)
    client.error("UNKNOWN", b"\xff\x00\r\n")
    client.error("UNKNOWN", "")


def test_a_wrong_number_of_arguments_gets_the_usage(client):
    assert "usage: ECHO message" in client.error("ERR", "ECHO")
    assert "usage: COUNTDOWN GET key" in client.error("ERR", "COUNTDOWN", "GET", "a", "b")
    assert "wrong number" in client.error("ERR", "COUNTDOWN", "START")

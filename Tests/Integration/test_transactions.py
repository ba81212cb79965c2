"""MULTI and EXEC over a crash, and beside the commands of others."""

import os
import shutil
import subprocess
import threading

import pytest

from countdownd import PATIENCE, Closed, Refused, eventually, random_by_seed

WIDTH = 50


@pytest.mark.daemon(arguments=["--durability", "process"])
def test_after_kill_9_a_transaction_is_there_as_a_whole_or_not_at_all(daemon):
    replied, broken = [0], []
    luck = random_by_seed()

    def run():
        client = daemon.connect()
        number = replied[0]
        try:
            while True:
                client.send("MULTI")
                for index in range(WIDTH):
                    client.send("TIMER", "SET", f"{number}-{index}", "1h")
                client.send("EXEC")
                for _ in range(WIDTH + 1):
                    client.receive()
                replies = client.receive()
                if len(replies) != WIDTH:
                    broken.append(replies)
                    return
                number += 1
                replied[0] = number
        except (Closed, OSError):
            pass
        except Refused as refused:
            broken.append(refused)

    for _ in range(5):
        begin = replied[0]
        thread = threading.Thread(target=run)
        thread.start()
        enough = begin + luck.randrange(1, 40)
        eventually(lambda: replied[0] >= enough or broken, "transactions run")
        daemon.restart("kill")
        thread.join(PATIENCE)
        assert not thread.is_alive() and not broken, broken
        client = daemon.connect()
        # Only the last one may have been stored without a reply.
        last = [client("TIMER", "GET", f"{replied[0]}-{index}") is None for index in range(WIDTH)]
        assert len(set(last)) == 1, f"{last.count(False)} of {WIDTH}"
        assert client("DBSIZE") == (replied[0] + (0 if last[0] else 1)) * WIDTH
        replied[0] += 0 if last[0] else 1


PROGRAM = """
package main

import (
	"fmt"
	"os"

	"github.com/gomodule/redigo/redis"
)

func main() {
	connection, err := redis.Dial("unix", os.Args[1])
	if err != nil {
		panic(err)
	}
	connection.Send("MULTI")
	connection.Send("TIMER", "SET", "t", "1h")
	connection.Send("TIMER", "DEL", "t")
	replies, err := redis.Values(connection.Do("EXEC"))
	fmt.Println(len(replies), replies[1], err)
	connection.Send("MULTI")
	connection.Send("TIMER", "SET", "t", "1h")
	connection.Send("TIMER", "LIST")
	_, err = connection.Do("EXEC")
	fmt.Println(err)
}
"""


@pytest.mark.skipif(
    not (shutil.which("go") and os.path.exists("/usr/share/gocode/src/github.com/gomodule/redigo")),
    reason="redigo is not installed: Debian's golang-github-gomodule-redigo-dev",
)
def test_redigo_sends_transactions(daemon, tmp_path):
    (tmp_path / "main.go").write_text(PROGRAM)
    done = subprocess.run(
        ["go", "run", "main.go", str(daemon.path)],
        cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE,
        env={**os.environ, "GO111MODULE": "off", "GOPATH": "/usr/share/gocode"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.splitlines()
    assert first == "2 1 <nil>"
    # It gives the first error since MULTI.
    assert second.startswith("ERR TIMER LIST cannot be queued by MULTI")

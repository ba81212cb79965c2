// Package countdowntest starts private daemons on virtual time for tests.
package countdowntest

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"

	"countdownd"
)

// Daemon is a private daemon. Its time moves only with Advance and the like.
type Daemon struct {
	Client *countdownd.Client
	Path   string
	test   testing.TB
	ended  chan struct{}
}

// New starts a daemon, and ends it after the test.
func New(test testing.TB) *Daemon {
	test.Helper()
	return Configured(test, "")
}

// Configured starts a daemon with a configuration in YAML.
func Configured(test testing.TB, configuration string) *Daemon {
	test.Helper()
	// Paths of sockets are short.
	folder, err := os.MkdirTemp("", "countdownd-")
	check(test, err)
	settings := filepath.Join(folder, "countdownd.yaml")
	check(test, os.WriteFile(settings, []byte(configuration), 0o600))
	program := os.Getenv("COUNTDOWND")
	if program == "" {
		if program, err = exec.LookPath("countdownd"); err != nil {
			test.Fatal("there is no countdownd in PATH; install it, or name it in COUNTDOWND")
		}
	}
	path := filepath.Join(folder, "socket")
	command := exec.Command(program, "--socket", path, "--config", settings,
		"--state-directory", filepath.Join(folder, "state"), "--virtual-time")
	command.Stdout, command.Stderr = os.Stderr, os.Stderr
	// It ends with the tests, also if they are killed: by SIGKILL, or by -timeout.
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	daemon := &Daemon{countdownd.New(path), path, test, make(chan struct{})}
	started := make(chan error)
	go func() {
		// Its parent is the thread that starts it, which stays that of this goroutine.
		runtime.LockOSThread()
		err := command.Start()
		started <- err
		if err == nil {
			_ = command.Wait()
			close(daemon.ended)
		}
	}()
	check(test, <-started)
	test.Cleanup(func() {
		daemon.Client.Close()
		_ = command.Process.Signal(syscall.SIGTERM)
		<-daemon.ended
		_ = os.RemoveAll(folder)
	})
	daemon.answers()
	return daemon
}

// Advance lets time pass, event by event.
func (daemon *Daemon) Advance(duration time.Duration) {
	daemon.test.Helper()
	_, err := daemon.Client.Clock.Advance(context.Background(), duration)
	check(daemon.test, err)
}

// Restart restarts the daemon, which is away for that time; it returns when the new one answers.
func (daemon *Daemon) Restart(away time.Duration) {
	daemon.test.Helper()
	before, err := os.Stat(daemon.Path)
	check(daemon.test, err)
	err = daemon.Client.Clock.Restart(context.Background(), countdownd.ClockRestartOptions{Away: &away})
	check(daemon.test, err)
	Eventually(daemon.test, func() bool {
		after, err := os.Stat(daemon.Path)
		return err == nil && (!os.SameFile(before, after) || !after.ModTime().Equal(before.ModTime()))
	})
	daemon.answers()
}

func (daemon *Daemon) answers() {
	daemon.test.Helper()
	Eventually(daemon.test, func() bool {
		select {
		case <-daemon.ended:
			daemon.test.Fatal("countdownd did not start; its message is above")
		default:
		}
		_, err := daemon.Client.Ping(context.Background(), countdownd.PingOptions{})
		return err == nil
	})
}

// Eventually waits until a condition is true.
func Eventually(test testing.TB, condition func() bool) {
	test.Helper()
	for end := time.Now().Add(time.Minute); !condition(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			test.Fatal("it did not happen in a minute")
		}
	}
}

func check(test testing.TB, err error) {
	test.Helper()
	if err != nil {
		test.Fatal(err)
	}
}

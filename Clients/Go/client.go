// Package countdownd is a client of countdownd: cooldowns, rate limits, idempotency keys, timers and
// their events.
package countdownd

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

type call func(ctx context.Context, words []string, repeatable, ownToken bool) (any, error)

// Error is an error of the daemon, or of the connection to it. A refusal is none: it is an answer.
type Error struct {
	// Code is the daemon's, or DOWN.
	Code  string
	Text  string
	cause error
}

func (err *Error) Error() string { return err.Code + " " + err.Text }

// Is reports whether an error has the same code.
func (err *Error) Is(other error) bool {
	its, ok := other.(*Error)
	return ok && its.Code == err.Code
}

func (err *Error) Unwrap() error { return err.cause }

// ErrDown: the daemon cannot be reached. Nothing was done.
var ErrDown = &Error{Code: "DOWN"}

// Decision is the answer to a request.
type Decision string

const (
	// Accepted: do it.
	Accepted Decision = "accepted"
	// Repeated: it was accepted before, with this token; somebody did it or is doing it.
	Repeated Decision = "repeated"
	// Refused: do not do it; Reason says why.
	Refused Decision = "refused"
)

// Answer has the decision about a request.
type Answer struct {
	Decision Decision
	// Degraded: this host alone accepted it, as the fleet's servers cannot be reached.
	Degraded bool
}

// IsAccepted reports whether to do it; not for a repetition.
func (answer Answer) IsAccepted() bool { return answer.Decision == Accepted }

// IsRepeated reports whether it was accepted before, with this token.
func (answer Answer) IsRepeated() bool { return answer.Decision == Repeated }

// IsRefused reports whether not to do it.
func (answer Answer) IsRefused() bool { return answer.Decision == Refused }

func toAnswer(raw Raw) Answer {
	reason := raw.text("reason")
	decision := Refused
	if raw.truth("accepted") {
		decision = Accepted
		if reason == "repeated" {
			decision = Repeated
		}
	}
	return Answer{decision, reason == "degraded"}
}

// Client is a client of the countdownd on this machine. It connects when it needs to, and fails at
// once when the daemon is down. Any number of goroutines can share it.
type Client struct {
	Commands
	path     string
	isSingle bool

	mutex sync.Mutex
	idle  []*connection
	// Whether the only connection was made.
	wasConnected bool
}

// New returns a client. It finds the socket as countdownctl does: path, else COUNTDOWND_SOCKET, else
// /run/countdownd/countdownd.sock.
func New(path string) *Client {
	client := &Client{path: path}
	client.Commands = newCommands(client.send)
	return client
}

// Connected returns a client with one connection: what has the owner "connection" ends with it.
func (client *Client) Connected() *Client {
	one := New(client.Path())
	one.isSingle = true
	return one
}

// Path returns the path of the socket.
func (client *Client) Path() string {
	if client.path != "" {
		return client.path
	}
	if path := os.Getenv("COUNTDOWND_SOCKET"); path != "" {
		return path
	}
	return "/run/countdownd/countdownd.sock"
}

// Close closes the connections.
func (client *Client) Close() {
	client.mutex.Lock()
	defer client.mutex.Unlock()
	for _, one := range client.idle {
		one.close()
	}
	client.idle = nil
}

// Command sends any command, and returns its reply as it came.
func (client *Client) Command(ctx context.Context, words ...string) (any, error) {
	return client.send(ctx, words, false, false)
}

func (client *Client) take(ctx context.Context) (one *connection, isNew bool, err error) {
	client.mutex.Lock()
	if last := len(client.idle) - 1; last >= 0 {
		one, client.idle = client.idle[last], client.idle[:last]
		client.mutex.Unlock()
		return one, client.isSingle, nil
	}
	isOver := client.isSingle && client.wasConnected
	client.wasConnected = true
	client.mutex.Unlock()
	if isOver {
		return nil, true, &Error{"DOWN", "the connection is closed, and what it owned has ended", nil}
	}
	one, err = connect(ctx, client.Path())
	return one, true, err
}

func (client *Client) giveBack(one *connection) {
	client.mutex.Lock()
	client.idle = append(client.idle, one)
	client.mutex.Unlock()
}

func (client *Client) send(ctx context.Context, words []string, repeatable, ownToken bool) (any, error) {
	one, isNew, err := client.take(ctx)
	if err != nil {
		return nil, err
	}
	err = one.write(ctx, words)
	if err != nil && !isNew {
		// A command that could not be sent was not done: the idle connection had ended.
		one.close()
		client.Close()
		if one, err = connect(ctx, client.Path()); err != nil {
			return nil, err
		}
		err = one.write(ctx, words)
	}
	var reply any
	if err == nil {
		reply, err = one.read(ctx)
	}
	if err == nil {
		client.giveBack(one)
		return answerOf(reply)
	}
	one.close()
	problem := fmt.Sprintf("the reply of %s is lost (%v)", words[0], err)
	if !repeatable || client.isSingle || ctx.Err() != nil {
		return nil, &Error{"UNSURE", problem + ": it may have been done, or not", err}
	}
	if one, err = connect(ctx, client.Path()); err != nil {
		return nil, &Error{"UNSURE", problem + ", and " + err.Error(), err}
	}
	if err = one.write(ctx, words); err == nil {
		reply, err = one.read(ctx)
	}
	if err != nil {
		one.close()
		return nil, &Error{"UNSURE", problem + ", and so is that of its repetition", err}
	}
	client.giveBack(one)
	// The token was made for this call alone, so nobody else was accepted with it.
	if raw, ok := reply.(Raw); ok && ownToken && raw.text("reason") == "repeated" {
		raw["reason"] = nil
	}
	return answerOf(reply)
}

func answerOf(reply any) (any, error) {
	if failure, ok := reply.(*Error); ok {
		return nil, failure
	}
	return reply, nil
}

// explanation says why nobody answers at a socket, and what to check.
func explanation(path string, err error) string {
	info, problem := os.Stat(path)
	switch {
	case errors.Is(problem, os.ErrNotExist):
		return fmt.Sprintf("there is no socket at %s; start countdownd (systemctl status countdownd), or set COUNTDOWND_SOCKET", path)
	case problem == nil && info.Mode()&os.ModeSocket == 0:
		return path + " is not a socket; set COUNTDOWND_SOCKET"
	case errors.Is(err, os.ErrPermission):
		return path + ": permission denied; add this user to the group of the socket"
	}
	return fmt.Sprintf("nobody answers at %s (%v); is countdownd running? systemctl status countdownd", path, err)
}

func connect(ctx context.Context, path string) (*connection, error) {
	var dialer net.Dialer
	far, err := dialer.DialContext(ctx, "unix", path)
	if err != nil {
		return nil, &Error{"DOWN", explanation(path, err), err}
	}
	one := newConnection(far)
	if err = one.write(ctx, []string{"HELLO", "3", "SETNAME", "go"}); err == nil {
		var reply any
		if reply, err = one.read(ctx); err == nil {
			if _, failure := answerOf(reply); failure != nil {
				one.close()
				return nil, failure
			}
			return one, nil
		}
	}
	one.close()
	return nil, &Error{"DOWN", explanation(path, err), err}
}

var (
	tokenPrefix = func() string {
		bytes := make([]byte, 8)
		if _, err := rand.Read(bytes); err != nil {
			panic(err)
		}
		return hex.EncodeToString(bytes)
	}()
	tokenCount uint64
)

func newToken() string {
	return tokenPrefix + "-" + strconv.FormatUint(atomic.AddUint64(&tokenCount, 1), 10)
}

// Some returns a pointer to a value, for options that can be zero.
func Some[T any](value T) *T { return &value }

// milliseconds are rounded up, so that nothing is early.
func milliseconds(duration time.Duration) string {
	return strconv.FormatInt(int64((duration+time.Millisecond-1)/time.Millisecond), 10) + "ms"
}

// unixMilliseconds are rounded up, so that nothing is early.
func unixMilliseconds(at time.Time) string {
	return strconv.FormatInt(at.Add(time.Millisecond-time.Nanosecond).UnixMilli(), 10)
}

func onOff(is bool) string {
	if is {
		return "on"
	}
	return "off"
}

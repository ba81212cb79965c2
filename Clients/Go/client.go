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
	"strings"
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
var ErrDown = &Error{Code: "DOWN", Text: "countdownd cannot be reached"}

// ErrClosed: the program has closed the client. A call that was under way then is ErrUnsure, too.
var ErrClosed = &Error{Code: "CLOSED", Text: "the client is closed"}

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
// once when the daemon is down. Any number of goroutines can share it. docs/reference/clients.md says
// what happens when calls are cancelled, replies are lost or the daemon is down.
type Client struct {
	Commands
	path    string
	timeout time.Duration
	hook    func(context.Context, Call)
	// Who has put a value here uses a connection.
	slots chan struct{}
	// Whether it has one connection, and never makes another one.
	isSingle bool

	mutex    sync.Mutex
	isClosed bool
	idle     []*connection
	busy     map[*connection]struct{}
	watches  map[*Watch]struct{}
	// Whether the only connection was made.
	wasConnected bool
}

// Option is an option of New.
type Option func(*Client)

// WithTimeout tells how long a call takes at most, connecting included; 5 s without it. The deadline
// of a context that is earlier goes first.
func WithTimeout(timeout time.Duration) Option {
	return func(client *Client) { client.timeout = timeout }
}

// WithMaxConnections tells how many connections there are at most, beside those of watches; 100 without
// it. More calls at once wait for one.
func WithMaxConnections(count int) Option {
	return func(client *Client) { client.slots = make(chan struct{}, count) }
}

// Call is a call that has ended, for metrics and traces.
type Call struct {
	// Command has the name of the command without its arguments, such as "COUNTDOWN START".
	Command string
	// Duration has connecting and a repetition in it.
	Duration time.Duration
	// Err is the error that the caller gets; nil if there is none. A refusal is none.
	Err error
}

// WithHook tells a function of each call, on the goroutine of the caller, with its context. Several
// hooks are called in their order.
func WithHook(hook func(context.Context, Call)) Option {
	return func(client *Client) {
		if before := client.hook; before != nil {
			client.hook = func(ctx context.Context, its Call) {
				before(ctx, its)
				hook(ctx, its)
			}
			return
		}
		client.hook = hook
	}
}

// New returns a client. It finds the socket as countdownctl does: path, else COUNTDOWND_SOCKET, else
// /run/countdownd/countdownd.sock.
func New(path string, options ...Option) *Client {
	client := &Client{
		path: path, timeout: 5 * time.Second, slots: make(chan struct{}, 100),
		busy: map[*connection]struct{}{}, watches: map[*Watch]struct{}{},
	}
	// Machines that run tests are busy.
	if os.Getenv("COUNTDOWND_TESTING") != "" {
		client.timeout = time.Minute
	}
	for _, option := range options {
		option(client)
	}
	client.Commands = newCommands(client.call)
	return client
}

// call sends a command, and tells the hook.
func (client *Client) call(ctx context.Context, words []string, repeatable, ownToken bool) (any, error) {
	if client.hook == nil {
		return client.send(ctx, words, repeatable, ownToken)
	}
	begin := time.Now()
	reply, err := client.send(ctx, words, repeatable, ownToken)
	client.hook(ctx, Call{nameOf(words), time.Since(begin), err})
	return reply, err
}

// nameOf returns the name of a command.
func nameOf(words []string) string {
	name := strings.ToUpper(words[0])
	if len(words) > 1 && families[name] {
		name += " " + strings.ToUpper(words[1])
	}
	return name
}

// Connected returns a client with one connection, which goroutines use in turn: what has the owner
// "connection" ends with it.
func (client *Client) Connected() *Client {
	one := New(client.Path(), WithTimeout(client.timeout), WithMaxConnections(1))
	one.hook, one.isSingle = client.hook, true
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

// Timeout returns how long a call takes at most.
func (client *Client) Timeout() time.Duration { return client.timeout }

// Close ends calls and watches, and the client for good: ErrClosed.
func (client *Client) Close() {
	client.mutex.Lock()
	client.isClosed = true
	idle, watches := client.idle, client.watches
	client.idle, client.watches = nil, nil
	for one := range client.busy {
		one.close()
	}
	client.mutex.Unlock()
	for _, one := range idle {
		one.close()
	}
	for watch := range watches {
		watch.end(ErrClosed)
	}
}

// Command sends any command, and returns its reply as it came. A command that would break a
// connection which others share, such as MULTI, is an error: use Connected.
func (client *Client) Command(ctx context.Context, words ...string) (any, error) {
	if len(words) == 0 {
		return nil, errors.New("countdownd: name a command, such as PING")
	}
	if name := nameOf(words); !client.isSingle && (bound[name] || bound[strings.ToUpper(words[0])]) {
		return nil, fmt.Errorf("countdownd: %s would break a connection that is shared; use Connected", name)
	}
	return client.call(ctx, words, false, false)
}

// limit is until when a call may take.
type limit struct {
	ctx      context.Context
	deadline time.Time
}

// ended returns the error of the context if it is why a call failed; nil if it is not. The deadline of
// a connection can be over a moment before that of its context is.
func (limit limit) ended(err error) error {
	if limit.ctx.Err() != nil {
		return limit.ctx.Err()
	}
	deadline, ok := limit.ctx.Deadline()
	if ok && errors.Is(err, os.ErrDeadlineExceeded) && !deadline.After(limit.deadline) {
		return context.DeadlineExceeded
	}
	return nil
}

func (client *Client) limit(ctx context.Context) limit {
	deadline := time.Now().Add(client.timeout)
	if its, ok := ctx.Deadline(); ok && its.Before(deadline) {
		deadline = its
	}
	return limit{ctx, deadline}
}

func (client *Client) closed() bool {
	client.mutex.Lock()
	defer client.mutex.Unlock()
	return client.isClosed
}

// take returns a connection that is not in use, or a new one.
func (client *Client) take(limit limit) (one *connection, isNew bool, err error) {
	client.mutex.Lock()
	if client.isClosed {
		client.mutex.Unlock()
		return nil, true, ErrClosed
	}
	if last := len(client.idle) - 1; last >= 0 {
		one, client.idle = client.idle[last], client.idle[:last]
		client.busy[one] = struct{}{}
		client.mutex.Unlock()
		return one, client.isSingle, nil
	}
	isOver := client.isSingle && client.wasConnected
	client.wasConnected = true
	client.mutex.Unlock()
	if isOver {
		return nil, true, &Error{"DOWN", "the connection is closed, and what it owned has ended", nil}
	}
	one, err = client.connect(limit)
	return one, true, err
}

// connect makes a connection, which is in use.
func (client *Client) connect(limit limit) (*connection, error) {
	far, err := (&net.Dialer{Deadline: limit.deadline}).DialContext(limit.ctx, "unix", client.Path())
	if err != nil {
		return nil, client.unreachable(limit, err)
	}
	one := newConnection(far)
	client.mutex.Lock()
	if client.isClosed {
		client.mutex.Unlock()
		one.close()
		return nil, ErrClosed
	}
	client.busy[one] = struct{}{}
	client.mutex.Unlock()
	reply, _, err := one.exchange(limit, []string{"HELLO", "3", "SETNAME", "go"})
	if err == nil {
		if _, err = answerOf(reply); err == nil {
			return one, nil
		}
		client.discard(one)
		return nil, err
	}
	client.discard(one)
	return nil, client.unreachable(limit, err)
}

func (client *Client) unreachable(limit limit, err error) error {
	if client.closed() {
		return ErrClosed
	}
	if its := limit.ended(err); its != nil {
		return its
	}
	return &Error{"DOWN", explanation(client.Path(), err), err}
}

func (client *Client) discard(one *connection) {
	one.close()
	client.mutex.Lock()
	delete(client.busy, one)
	client.mutex.Unlock()
}

func (client *Client) giveBack(one *connection) {
	client.mutex.Lock()
	delete(client.busy, one)
	isKept := !client.isClosed
	if isKept {
		client.idle = append(client.idle, one)
	}
	client.mutex.Unlock()
	if !isKept {
		one.close()
	}
}

// drop closes the connections that are not in use.
func (client *Client) drop() {
	client.mutex.Lock()
	idle := client.idle
	client.idle = nil
	client.mutex.Unlock()
	for _, one := range idle {
		one.close()
	}
}

func (client *Client) send(ctx context.Context, words []string, repeatable, ownToken bool) (any, error) {
	limit := client.limit(ctx)
	// What is cancelled before is not sent.
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := client.wait(limit); err != nil {
		return nil, err
	}
	defer func() { <-client.slots }()
	one, isNew, err := client.take(limit)
	if err != nil {
		return nil, err
	}
	reply, isSent, err := client.exchange(one, limit, words)
	if err != nil && !isSent && !isNew && limit.ended(err) == nil && !client.closed() {
		// The idle connections had ended.
		client.drop()
		if one, err = client.connect(limit); err != nil {
			return nil, err
		}
		reply, isSent, err = client.exchange(one, limit, words)
	}
	switch {
	case err == nil:
		return answerOf(reply)
	case !isSent:
		return nil, client.unreachable(limit, err)
	}
	return client.again(limit, words, repeatable, ownToken, err)
}

// wait waits for a connection that may be used.
func (client *Client) wait(limit limit) error {
	select {
	case client.slots <- struct{}{}:
		return nil
	default:
	}
	timer := time.NewTimer(time.Until(limit.deadline))
	defer timer.Stop()
	select {
	case client.slots <- struct{}{}:
		return nil
	case <-limit.ctx.Done():
		return limit.ctx.Err()
	case <-timer.C:
		return client.unreachable(limit, fmt.Errorf("all %d connections are in use: %w", cap(client.slots), os.ErrDeadlineExceeded))
	}
}

// exchange sends a command and reads its reply; the connection is not in use any more then.
func (client *Client) exchange(one *connection, limit limit, words []string) (any, bool, error) {
	reply, isSent, err := one.exchange(limit, words)
	if err != nil {
		client.discard(one)
	} else {
		client.giveBack(one)
	}
	return reply, isSent, err
}

// again repeats a command whose reply was lost, if that is safe and there is time.
func (client *Client) again(limit limit, words []string, repeatable, ownToken bool, lost error) (any, error) {
	unsure := func(problem string, cause error) error {
		return &Error{"UNSURE", problem + ": the command may have run, or not", cause}
	}
	if client.closed() {
		return nil, unsure("the client was closed", ErrClosed)
	}
	problem := fmt.Sprintf("the reply of %s is lost (%v)", words[0], lost)
	if its := limit.ended(lost); its != nil {
		return nil, unsure(problem, its)
	}
	if !repeatable || client.isSingle || !time.Now().Before(limit.deadline) {
		return nil, unsure(problem, lost)
	}
	one, err := client.connect(limit)
	var reply any
	if err == nil {
		reply, _, err = client.exchange(one, limit, words)
	}
	if err != nil {
		cause := lost
		if its := limit.ended(err); its != nil {
			cause = its
		} else if client.closed() {
			cause = ErrClosed
		}
		return nil, unsure(fmt.Sprintf("%s, and its repetition failed (%v)", problem, err), cause)
	}
	if raw, ok := reply.(Raw); ok {
		// The token was made for this call alone, so nobody else was accepted with it. And a result
		// that is recorded is the one of this call if it is the same.
		isOwn := ownToken && raw.text("reason") == "repeated"
		isDone := words[0] == "ONCE" && words[1] == "DONE" && raw.text("reason") == "duplicate" &&
			raw.text("result") == words[3]
		if isOwn || isDone {
			raw["accepted"], raw["reason"] = true, nil
		}
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

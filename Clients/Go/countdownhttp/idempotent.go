package countdownhttp

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"countdownd"
)

const (
	// longestKey is the longest Idempotency-Key, in bytes.
	longestKey = 255
	// mostStored is the most that is sent to the daemon as an answer, in bytes. The daemon has a limit of
	// its own: limits.max-result-length.
	mostStored = 250_000
	// patience is how long to retry recording a result while the daemon is unreachable.
	patience = 3 * time.Second
)

// Idempotency tells how long answers are kept, and whose they are.
type Idempotency struct {
	// Name is that of the handler; handlers with the same name share keys.
	Name string
	// TTL tells how long repetitions are recognized; 24 h without it.
	TTL time.Duration
	// Lease tells after what time the next request may run the handler again if the program died in it;
	// 10 s without it. It is extended while the handler runs.
	Lease time.Duration
	// User tells who asks, so that nobody gets an answer of another user. nil: all users share the keys.
	User func(*http.Request) string
	// Required: a request without an Idempotency-Key gets 400, instead of running each time.
	Required bool
	// Fail tells what happens while the daemon cannot be asked; Closed if it is not given. With Open, the
	// handler runs each time.
	Fail Fail
	// OnError gets each error of the daemon.
	OnError func(error, *http.Request)
}

// Idempotent runs a handler once for each Idempotency-Key of a user; repetitions get its answer. 422 if
// the key comes with another request, 409 while the first one runs. It panics if the options are wrong.
//
// The context of a handler does not end with its client, so that its answer is stored. An answer of 429,
// or of 500 or more, is not stored, nor that of a handler that panics. One that is flushed in parts or
// too large is an error at once: 500, and a line in the log.
func Idempotent(client *countdownd.Client, idempotency Idempotency, next http.Handler) http.Handler {
	named(idempotency.Name)
	if idempotency.TTL == 0 {
		idempotency.TTL = 24 * time.Hour
	}
	if idempotency.Lease == 0 {
		idempotency.Lease = 10 * time.Second
	}
	if idempotency.Lease < 0 || idempotency.Lease > idempotency.TTL {
		panic(fmt.Sprintf("countdownhttp: Lease is at most TTL (%v), not %v", idempotency.TTL, idempotency.Lease))
	}
	failing := newFailing("the idempotent handler "+idempotency.Name, idempotency.Fail, Closed, idempotency.OnError)
	return &once{client, idempotency, failing, next}
}

type once struct {
	client  *countdownd.Client
	options Idempotency
	failing failing
	next    http.Handler
}

func (once *once) ServeHTTP(writer http.ResponseWriter, request *http.Request) {
	names := request.Header["Idempotency-Key"]
	switch {
	case len(names) == 0 && once.options.Required:
		http.Error(writer, "Idempotency-Key is missing.", http.StatusBadRequest)
		return
	case len(names) == 0:
		once.next.ServeHTTP(writer, request)
		return
	case names[0] == "" || len(names[0]) > longestKey:
		http.Error(writer, "Idempotency-Key has 1 to 255 bytes.", http.StatusBadRequest)
		return
	}
	user := ""
	if once.options.User != nil {
		user = once.options.User(request)
	}
	mark, err := fingerprint(request)
	if err != nil {
		unreadable(writer, err)
		return
	}
	// What the client does meanwhile changes nothing: a request that has begun is carried out.
	begun, err := once.client.Once.Begin(
		lasting{request.Context()}, keyOf("request", once.options.Name, user, names[0]),
		countdownd.OnceBeginOptions{TTL: once.options.TTL, Lease: once.options.Lease, Fingerprint: mark})
	switch {
	case err != nil:
		if once.failing.failed(err, writer, request) {
			once.next.ServeHTTP(writer, request)
		}
	case begun.IsAccepted():
		once.run(begun, writer, request)
	case begun.Reason == countdownd.ReasonMismatch:
		http.Error(writer, "This key was used for another request.", http.StatusUnprocessableEntity)
	case begun.State == "running":
		wait := begun.RemainingTime
		if begun.Lease != nil {
			wait = *begun.Lease
		}
		writer.Header().Set("Retry-After", strconv.FormatInt(seconds(wait), 10))
		http.Error(writer, "The first request is still running.", http.StatusConflict)
	default:
		first, err := unpacked(begun.Result)
		if err != nil {
			once.failing.failed(mistake("the stored answer of %s cannot be read: %v", begun.Key, err), writer, request)
			return
		}
		writer.Header().Set("Idempotency-Replayed", "true")
		first.write(writer)
	}
}

// run runs the handler, and stores its answer.
func (once *once) run(begun *countdownd.OnceAnswer, writer http.ResponseWriter, request *http.Request) {
	ctx, stop := context.WithCancel(lasting{request.Context()})
	defer stop()
	recorder := newRecorder(writer.Header(), stop)
	over := once.keep(begun)
	hasReturned := false
	defer func() {
		over()
		if !hasReturned && recorder.problem == "" {
			once.cancel(begun, request)
		}
	}()
	once.next.ServeHTTP(recorder, request.WithContext(ctx))
	hasReturned = true
	answer := recorder.answer()
	if recorder.problem == "" {
		if isStored(answer.Status) {
			recorder.problem = once.done(begun, answer.packed(), request)
		} else {
			once.cancel(begun, request)
		}
	}
	if recorder.problem != "" {
		logf(request, "countdownd: the answer of %s cannot be stored for its Idempotency-Key: %s",
			once.options.Name, recorder.problem)
		http.Error(writer, "Internal server error.", http.StatusInternalServerError)
		return
	}
	copyHeader(writer.Header(), recorder.header)
	answer.send(writer)
}

// keep extends the lease of a handler until the returned function is called.
func (once *once) keep(begun *countdownd.OnceAnswer) func() {
	ticker, over := time.NewTicker(once.options.Lease/3+1), make(chan struct{})
	go func() {
		defer ticker.Stop()
		for {
			select {
			case <-over:
				return
			case <-ticker.C:
			}
			options := countdownd.OnceExtendOptions{Generation: begun.Generation}
			if _, err := once.client.Once.Extend(context.Background(), begun.Key, options); err != nil && !isAway(err) {
				return
			}
		}
	}()
	return func() { close(over) }
}

// done stores an answer. If that fails, the key stays taken until its lease expires. It returns why an
// answer cannot be stored, or an empty text.
func (once *once) done(begun *countdownd.OnceAnswer, result []byte, request *http.Request) string {
	tooLarge := fmt.Sprintf("it has %d bytes; answer with less, such as a Location, or raise "+
		"limits.max-result-length (at most %d)", len(result), mostStored)
	if len(result) > mostStored {
		return tooLarge
	}
	options := countdownd.OnceDoneOptions{Generation: &begun.Generation}
	end, pause := time.Now().Add(patience), 50*time.Millisecond
	for {
		_, err := once.client.Once.Done(context.Background(), begun.Key, result, options)
		switch {
		case err == nil:
			return ""
		case errors.Is(err, countdownd.ErrLimit):
			return tooLarge
		case !isAway(err) || time.Now().Add(pause).After(end):
			once.noted(fmt.Errorf("%s is done, but that is not stored, so it may run again: %w", begun.Key, err), request)
			return ""
		}
		time.Sleep(pause)
		if pause *= 2; pause > 500*time.Millisecond {
			pause = 500 * time.Millisecond
		}
	}
}

// cancel lets the next request run the handler.
func (once *once) cancel(begun *countdownd.OnceAnswer, request *http.Request) {
	options := countdownd.OnceCancelOptions{Generation: &begun.Generation}
	if _, err := once.client.Once.Cancel(context.Background(), begun.Key, options); err != nil {
		once.noted(fmt.Errorf("%s is left to its lease: %w", begun.Key, err), request)
	}
}

func (once *once) noted(err error, request *http.Request) {
	if once.options.OnError != nil {
		once.options.OnError(err, request)
	}
	logf(request, "countdownd: %v", err)
}

// fingerprint returns what tells a request from others: its method, its path with the query, its body.
func fingerprint(request *http.Request) ([]byte, error) {
	var body []byte
	if request.Body != nil {
		var err error
		if body, err = io.ReadAll(request.Body); err != nil {
			return nil, err
		}
		request.Body = io.NopCloser(bytes.NewReader(body))
	}
	sum := sha256.New()
	fmt.Fprintf(sum, "%s %s\n", request.Method, request.URL.RequestURI())
	sum.Write(body)
	return []byte(hex.EncodeToString(sum.Sum(nil))), nil
}

func unreadable(writer http.ResponseWriter, err error) {
	var tooLarge *http.MaxBytesError
	if errors.As(err, &tooLarge) {
		http.Error(writer, "The body is too large.", http.StatusRequestEntityTooLarge)
		return
	}
	http.Error(writer, "The body cannot be read.", http.StatusBadRequest)
}

// lasting is a context that does not end with that of its request.
type lasting struct{ context.Context }

func (lasting) Deadline() (deadline time.Time, ok bool) { return time.Time{}, false }
func (lasting) Done() <-chan struct{}                   { return nil }
func (lasting) Err() error                              { return nil }

// isStored reports whether repetitions get an answer: others invite to try again.
func isStored(status int) bool { return status != http.StatusTooManyRequests && status < 500 }

// answer is an answer as ONCE keeps it: a line of JSON, and the body.
type answer struct {
	Status  int         `json:"status"`
	Headers [][2]string `json:"headers"`
	body    []byte
}

func (answer answer) packed() []byte {
	head, err := json.Marshal(answer)
	if err != nil {
		panic(err)
	}
	return append(append(head, '\n'), answer.body...)
}

func unpacked(result []byte) (answer, error) {
	head, body, _ := bytes.Cut(result, []byte("\n"))
	first := answer{body: body}
	err := json.Unmarshal(head, &first)
	return first, err
}

// write sends an answer with its headers.
func (answer answer) write(writer http.ResponseWriter) {
	for _, pair := range answer.Headers {
		if pair[0] != "Set-Cookie" {
			writer.Header().Del(pair[0])
		}
	}
	for _, pair := range answer.Headers {
		writer.Header().Add(pair[0], pair[1])
	}
	answer.send(writer)
}

// send sends the status and the body.
func (answer answer) send(writer http.ResponseWriter) {
	writer.WriteHeader(answer.Status)
	_, _ = writer.Write(answer.body)
}

// Package countdownhttp has middleware for http.Handler: requests that run once for each
// Idempotency-Key, and rate limits. docs/reference/middleware.md says what it does, in any framework.
//
// A mistake in the options panics when a handler is made, as a wrong pattern of http.ServeMux does. One
// that is found later is 500, and a line in the log of the server.
package countdownhttp

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"countdownd"
)

// Fail tells what happens to requests while the daemon cannot be asked.
type Fail string

const (
	// Open: they run, without a limit or each time.
	Open Fail = "open"
	// Closed: they get 503.
	Closed Fail = "closed"
)

// awaySeconds is the Retry-After while the daemon is unreachable.
const awaySeconds = 1

// failing is what limits and idempotent handlers do when the daemon does not answer as it should.
type failing struct {
	what    string
	fail    Fail
	onError func(error, *http.Request)
}

func newFailing(what string, fail, usual Fail, onError func(error, *http.Request)) failing {
	if fail == "" {
		fail = usual
	}
	if fail != Open && fail != Closed {
		panic(fmt.Sprintf("countdownhttp: Fail is Open or Closed, not %q", fail))
	}
	return failing{what, fail, onError}
}

// failed notes an error, and answers unless the handler runs without the daemon: then it is true.
func (failing failing) failed(err error, writer http.ResponseWriter, request *http.Request) bool {
	if failing.onError != nil {
		failing.onError(err, request)
	}
	switch {
	case !isAway(err):
		logf(request, "countdownd: %s is set up wrong: %v", failing.what, err)
		http.Error(writer, "Internal server error.", http.StatusInternalServerError)
	case failing.fail == Closed:
		logf(request, "countdownd: %s fails closed: %v", failing.what, err)
		writer.Header().Set("Retry-After", strconv.Itoa(awaySeconds))
		http.Error(writer, "Try again later.", http.StatusServiceUnavailable)
	default:
		logf(request, "countdownd: %s fails open: %v", failing.what, err)
		return true
	}
	return false
}

// isAway reports whether the daemon cannot be asked, or cannot decide now: it is down, loads, is full
// or has no room on its disk. Other errors are mistakes of the program or its configuration.
func isAway(err error) bool {
	var its *countdownd.Error
	if !errors.As(err, &its) {
		// The client has gone.
		return errors.Is(err, countdownd.ErrClosed) || isCancellation(err)
	}
	switch its.Code {
	case "ERR", "NOTFOUND", "STALE", "NOPERM":
		return false
	}
	return true
}

// logf writes a line to the log of the server.
func logf(request *http.Request, format string, words ...any) {
	if server, ok := request.Context().Value(http.ServerContextKey).(*http.Server); ok && server.ErrorLog != nil {
		server.ErrorLog.Printf(format, words...)
		return
	}
	log.Printf(format, words...)
}

// keyOf returns a key of parts, in which only the last one has colons of its own.
func keyOf(parts ...string) string {
	last := len(parts) - 1
	escaped := make([]string, last, last+1)
	for index, part := range parts[:last] {
		escaped[index] = url.QueryEscape(part)
	}
	key := strings.Join(append(escaped, parts[last]), ":")
	// The longest key of the daemon.
	if len(key) <= 512 {
		return key
	}
	sum := sha256.Sum256([]byte(key))
	return escaped[0] + ":" + hex.EncodeToString(sum[:])
}

// named panics if a handler has no name: net/http does not tell middleware its route.
func named(name string) {
	if name == "" {
		panic("countdownhttp: Name is missing: that of the handler, such as \"orders\"")
	}
}

func seconds(duration time.Duration) int64 {
	return int64((duration + time.Second - 1) / time.Second)
}

package countdownhttp

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sort"
)

// notStored has the headers of a connection or a moment, or of what is around a handler.
var notStored = map[string]bool{
	"Connection": true, "Keep-Alive": true, "Proxy-Authenticate": true, "Proxy-Authorization": true,
	"Te": true, "Trailer": true, "Transfer-Encoding": true, "Upgrade": true, "Content-Length": true,
	"Date": true, "Retry-After": true, "Ratelimit": true, "Ratelimit-Policy": true,
	"Idempotency-Replayed": true,
}

// recorder is what a handler writes its answer to.
type recorder struct {
	// outer has the headers from before the handler, and header those of the handler, too.
	outer, header http.Header
	// sent has the headers when the status was written. Those that come later do not count.
	sent   http.Header
	status int
	body   []byte
	// problem says why the answer cannot be stored.
	problem string
	// stop ends the context of the handler, once its answer cannot be stored.
	stop context.CancelFunc
}

func newRecorder(outer http.Header, stop context.CancelFunc) *recorder {
	return &recorder{outer: outer.Clone(), header: outer.Clone(), stop: stop}
}

func (recorder *recorder) Header() http.Header {
	if recorder.header == nil {
		recorder.header = http.Header{}
	}
	return recorder.header
}

func (recorder *recorder) WriteHeader(status int) {
	// 1xx are no answers.
	if recorder.status == 0 && status >= 200 {
		recorder.status, recorder.sent = status, recorder.header.Clone()
	}
}

func (recorder *recorder) Write(bytes []byte) (int, error) {
	recorder.WriteHeader(http.StatusOK)
	if recorder.problem == "" && len(recorder.body)+len(bytes) > mostStored {
		recorder.fails(fmt.Sprintf("it has more than %d bytes; answer with less, such as a Location", mostStored))
	}
	if recorder.problem != "" {
		return 0, errors.New("countdownhttp: the answer cannot be stored: " + recorder.problem)
	}
	recorder.body = append(recorder.body, bytes...)
	return len(bytes), nil
}

// Flush would send a part of an answer that may not be stored in the end.
func (recorder *recorder) Flush() {
	recorder.fails("it is streamed; answer with a whole body, without Flush")
}

func (recorder *recorder) fails(problem string) {
	if recorder.problem == "" {
		recorder.problem, recorder.body = problem, nil
		recorder.stop()
	}
}

// answer returns the answer, with the headers that the handler has set.
func (recorder *recorder) answer() answer {
	recorder.WriteHeader(http.StatusOK)
	recorder.header = recorder.sent
	its := answer{Status: recorder.status, Headers: [][2]string{}, body: recorder.body}
	for name, values := range recorder.sent {
		if notStored[name] {
			continue
		}
		known := recorder.outer[name]
		if equal(known, values) {
			continue
		}
		if count := len(known); name == "Set-Cookie" && count < len(values) && equal(known, values[:count]) {
			values = values[count:]
		}
		for _, value := range values {
			its.Headers = append(its.Headers, [2]string{name, value})
		}
	}
	// Cookies keep their order; the same answer is the same bytes.
	sort.SliceStable(its.Headers, func(i, j int) bool { return its.Headers[i][0] < its.Headers[j][0] })
	return its
}

func equal(one, other []string) bool {
	if len(one) != len(other) {
		return false
	}
	for index := range one {
		if one[index] != other[index] {
			return false
		}
	}
	return true
}

// copyHeader makes a header the same as another one.
func copyHeader(header, other http.Header) {
	for name := range header {
		if _, ok := other[name]; !ok {
			delete(header, name)
		}
	}
	for name, values := range other {
		header[name] = values
	}
}

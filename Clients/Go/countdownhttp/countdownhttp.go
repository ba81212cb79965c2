// Package countdownhttp has middleware for http.Handler: rate limits and idempotency keys.
package countdownhttp

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"countdownd"
)

// Limit is a rate limit of requests, or several.
type Limit struct {
	// Burst and Rate are of one limit; named limits have their own.
	Burst int64
	// Rate is a count and a time, such as "5/10m".
	Rate string
	// Keys tells whose limit it is, or the keys of named limits: all or none. nil: by the address.
	Keys func(*http.Request) []string
}

// Throttle limits requests: 429 with RateLimit and Retry-After.
func Throttle(client *countdownd.Client, limit Limit, next http.Handler) http.Handler {
	return http.HandlerFunc(func(writer http.ResponseWriter, request *http.Request) {
		host, _, _ := net.SplitHostPort(request.RemoteAddr)
		keys := []string{"ip:" + host}
		if limit.Keys != nil {
			keys = limit.Keys(request)
		}
		options := countdownd.ThrottleTakeOptions{Burst: limit.Burst, Rate: limit.Rate}
		answer, err := client.Throttle.Take(request.Context(), keys[0], options, keys[1:]...)
		if err != nil {
			fail(writer, err)
			return
		}
		setHeaders(writer.Header(), answer)
		if answer.IsRefused() {
			http.Error(writer, "Too many requests.", http.StatusTooManyRequests)
			return
		}
		next.ServeHTTP(writer, request)
	})
}

// setHeaders sets RateLimit-Policy, RateLimit and, for a refusal, Retry-After.
func setHeaders(header http.Header, answer *countdownd.ThrottleAnswer) {
	var policies, limits []string
	for _, one := range answer.Views {
		name := "default"
		if answer.Raw["views"] != nil {
			name, _, _ = strings.Cut(one.Key, ":")
		}
		policies = append(policies, fmt.Sprintf(`"%s";q=%d;w=%d`, name, one.Limit, seconds(one.RatePeriod)))
		limits = append(limits, fmt.Sprintf(`"%s";r=%d;t=%d`, name, one.Remaining, seconds(one.ResetAfter)))
	}
	header.Set("RateLimit-Policy", strings.Join(policies, ", "))
	header.Set("RateLimit", strings.Join(limits, ", "))
	if answer.IsRefused() {
		header.Set("Retry-After", strconv.FormatInt(seconds(answer.RetryAfter), 10))
	}
}

type reply struct {
	Status int
	Header http.Header
	Body   []byte
}

// Idempotency tells how long replies are kept, and whose they are.
type Idempotency struct {
	TTL time.Duration
	// Lease tells how long a handler may take: if the program crashes, the next request runs it again
	// after this time. 0: after TTL.
	Lease time.Duration
	// User tells who asks, so that nobody gets a reply of another user. nil: all users share the keys.
	User func(*http.Request) string
}

// Idempotent runs a handler once for each Idempotency-Key of a user; repetitions get its reply. 422 if
// the key comes with another request, 409 while the first one runs. A reply of 500 or more is forgotten.
func Idempotent(client *countdownd.Client, idempotency Idempotency, next http.Handler) http.Handler {
	return http.HandlerFunc(func(writer http.ResponseWriter, request *http.Request) {
		name := request.Header.Get("Idempotency-Key")
		if name == "" {
			http.Error(writer, "Idempotency-Key is missing.", http.StatusBadRequest)
			return
		}
		body, err := io.ReadAll(request.Body)
		if err != nil {
			http.Error(writer, "The body cannot be read.", http.StatusBadRequest)
			return
		}
		request.Body = io.NopCloser(bytes.NewReader(body))
		sum := sha256.Sum256(append([]byte(request.Method+" "+request.URL.RequestURI()+"\n"), body...))
		fingerprint := hex.EncodeToString(sum[:])
		ctx, key := request.Context(), "request:"+name
		if idempotency.User != nil {
			// Escaped, so that no key of one user looks like a key of another.
			key = "request:" + url.QueryEscape(idempotency.User(request)) + ":" + name
		}
		begun, err := client.Once.Begin(ctx, key, countdownd.OnceBeginOptions{
			TTL: idempotency.TTL, Lease: idempotency.Lease, Fingerprint: []byte(fingerprint),
		})
		if err != nil {
			fail(writer, err)
			return
		}
		if begun.Reason == countdownd.ReasonMismatch {
			http.Error(writer, "This key was used for another request.", http.StatusUnprocessableEntity)
			return
		}
		if begun.IsRefused() && begun.State == "running" {
			writer.Header().Set("Retry-After", "1")
			http.Error(writer, "The first request is still running.", http.StatusConflict)
			return
		}
		if !begun.IsAccepted() {
			var first reply
			if err := json.Unmarshal(begun.Result, &first); err != nil {
				fail(writer, err)
				return
			}
			first.write(writer)
			return
		}
		recorded := &recorder{reply: reply{Status: 200, Header: http.Header{}}}
		isDone := false
		defer func() {
			if !isDone {
				_, _ = client.Once.Cancel(ctx, key, countdownd.OnceCancelOptions{Generation: &begun.Generation})
			}
		}()
		next.ServeHTTP(recorded, request)
		if recorded.reply.Status < 500 {
			result, err := json.Marshal(recorded.reply)
			if err == nil {
				_, err = client.Once.Done(ctx, key, result, countdownd.OnceDoneOptions{Generation: &begun.Generation})
			}
			if err != nil {
				fail(writer, err)
				return
			}
			isDone = true
		}
		recorded.reply.write(writer)
	})
}

type recorder struct{ reply reply }

func (recorder *recorder) Header() http.Header    { return recorder.reply.Header }
func (recorder *recorder) WriteHeader(status int) { recorder.reply.Status = status }
func (recorder *recorder) Write(b []byte) (int, error) {
	recorder.reply.Body = append(recorder.reply.Body, b...)
	return len(b), nil
}

func (reply reply) write(writer http.ResponseWriter) {
	for name, values := range reply.Header {
		writer.Header()[name] = values
	}
	writer.WriteHeader(reply.Status)
	_, _ = writer.Write(reply.Body)
}

func fail(writer http.ResponseWriter, err error) {
	var failure *countdownd.Error
	if errors.As(err, &failure) {
		http.Error(writer, "Try again later.", http.StatusServiceUnavailable)
		return
	}
	http.Error(writer, "Internal error.", http.StatusInternalServerError)
}

func seconds(duration time.Duration) int64 {
	return int64((duration + time.Second - 1) / time.Second)
}

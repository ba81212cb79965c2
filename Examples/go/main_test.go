package main

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"countdownd"
	"countdownd/countdowntest"
)

func call(handler http.Handler, method, path, body, key string) *httptest.ResponseRecorder {
	request := httptest.NewRequest(method, path, strings.NewReader(body))
	if key != "" {
		request.Header.Set("Idempotency-Key", key)
	}
	recorder := httptest.NewRecorder()
	handler.ServeHTTP(recorder, request)
	return recorder
}

func TestSearchesAreLimited(t *testing.T) {
	daemon := countdowntest.New(t)
	service := handler(daemon.Client)
	search := func() *httptest.ResponseRecorder { return call(service, "GET", "/search", "", "") }
	for left := 9; left >= 0; left-- {
		expected := fmt.Sprintf(`"default";r=%d;t=%d`, left, 60-6*left)
		if found := search().Header().Get("RateLimit"); found != expected {
			t.Fatal(found, expected)
		}
	}
	if refused := search(); refused.Code != 429 || refused.Header().Get("Retry-After") != "6" {
		t.Fatal(refused)
	}
	daemon.Advance(6 * time.Second)
	if reply := search(); reply.Code != 200 {
		t.Fatal(reply)
	}
}

func TestAnOrderIsPlacedOnce(t *testing.T) {
	daemon := countdowntest.New(t)
	service := handler(daemon.Client)
	order := func(item, key string) *httptest.ResponseRecorder {
		return call(service, "POST", "/orders", fmt.Sprintf(`{"item": %q}`, item), key)
	}
	for range []int{1, 2} {
		reply := order("tea", "a")
		if reply.Code != 201 || strings.TrimSpace(reply.Body.String()) != `{"id":1,"item":"tea"}` {
			t.Fatal(reply)
		}
	}
	if reply := order("coffee", "a"); reply.Code != 422 {
		t.Fatal(reply)
	}
	options := countdownd.OnceBeginOptions{TTL: 24 * time.Hour}
	if _, err := daemon.Client.Once.Begin(context.Background(), "request:orders::b", options); err != nil {
		t.Fatal(err)
	}
	if reply := order("tea", "b"); reply.Code != 409 {
		t.Fatal(reply)
	}
	if reply := order("tea", ""); reply.Code != 400 {
		t.Fatal(reply)
	}
}

func TestADocumentIsReindexedWhenNobodySavesIt(t *testing.T) {
	daemon := countdowntest.New(t)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	seen := make(chan string, 10)
	go func() { _ = work(ctx, daemon.Client, func(name string) { seen <- name }) }()
	countdowntest.Eventually(t, func() bool {
		count, err := daemon.Client.Command(ctx, "PUBSUB", "NUMPAT")
		return err == nil && fmt.Sprint(count) == "1"
	})
	service := handler(daemon.Client)
	for calls := 1; calls <= 3; calls++ {
		reply := call(service, "POST", "/documents/a", "", "")
		if reply.Code != 202 || strings.TrimSpace(reply.Body.String()) != fmt.Sprintf(`{"calls":%d}`, calls) {
			t.Fatal(reply)
		}
		daemon.Advance(1900 * time.Millisecond)
	}
	if len(seen) != 0 {
		t.Fatal(<-seen)
	}
	daemon.Advance(100 * time.Millisecond)
	call(service, "POST", "/documents/b", "", "")
	daemon.Advance(2 * time.Second)
	for _, expected := range []string{"a", "b"} {
		if name := <-seen; name != expected {
			t.Fatal(name)
		}
	}
}

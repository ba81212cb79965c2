package countdownhttp

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"countdownd"
	"countdownd/countdowntest"
)

// Tests/Integration/test_middleware.py has the contract; here is what only Go has.

func ask(handler http.Handler, headers ...string) *httptest.ResponseRecorder {
	request := httptest.NewRequest("POST", "/", strings.NewReader("tea"))
	for index := 0; index < len(headers); index += 2 {
		request.Header.Set(headers[index], headers[index+1])
	}
	recorder := httptest.NewRecorder()
	handler.ServeHTTP(recorder, request)
	return recorder
}

var nothing = http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})

func TestWrongOptionsPanicWhenAHandlerIsMade(t *testing.T) {
	limit := func(limit Limit) func() { return func() { Throttle(nil, limit, nothing) } }
	once := func(options Idempotency) func() { return func() { Idempotent(nil, options, nothing) } }
	user := []NamedLimit{{Name: "user"}}
	for what, make := range map[string]func(){
		"Burst":    limit(Limit{Name: "a", Rate: "1/1s"}),
		"Rate":     limit(Limit{Name: "a", Burst: 1}),
		"\"0/1s\"": limit(Limit{Name: "a", Burst: 1, Rate: "0/1s"}),
		"Name":     limit(Limit{Burst: 1, Rate: "1/1s"}),
		"Fail":     limit(Limit{Name: "a", Burst: 1, Rate: "1/1s", Fail: "ajar"}),
		"Cost":     limit(Limit{Name: "a", Burst: 1, Rate: "1/1s", Cost: 2}),
		"named":    limit(Limit{Burst: 1, Named: user}),
		"missing":  limit(Limit{Named: []NamedLimit{{}}}),
		"such as":  once(Idempotency{}),
		"Lease":    once(Idempotency{Name: "a", TTL: time.Second}),
	} {
		func() {
			defer func() {
				if problem, _ := recover().(string); !strings.Contains(problem, what) {
					t.Errorf("%q does not say %q", problem, what)
				}
			}()
			make()
		}()
	}
}

func TestTheAddressOfTheConnection(t *testing.T) {
	for address, expected := range map[string]string{
		"10.0.0.1:80": "10.0.0.1", "[2001:db8::1]:80": "2001:db8::/64", "[::ffff:10.0.0.1]:80": "10.0.0.1",
		"[fe80::1%eth0]:80": "fe80::/64", "@": "@", "": "",
	} {
		if found := network(addressOf(&http.Request{RemoteAddr: address})); found != expected {
			t.Errorf("%s is %s", address, found)
		}
	}
}

func TestNamedLimitsAreTakenAllOrNone(t *testing.T) {
	client := countdowntest.Configured(t, "throttles:\n  user: {burst: 2, rate: 2/1m}\n  all: {burst: 9, rate: 9/1h}\n").Client
	user := func(request *http.Request) string { return request.Header.Get("X-User") }
	limited := Throttle(client, Limit{Named: []NamedLimit{{Name: "user", Key: user}, {Name: "all", IsShared: true}}}, nothing)
	if found := ask(limited, "X-User", "a").Header().Get("RateLimit"); found != `"user";r=1;t=30, "all";r=8;t=400` {
		t.Fatal(found)
	}
	ask(limited, "X-User", "a")
	if refused := ask(limited, "X-User", "a"); refused.Code != 429 || refused.Header().Get("Retry-After") != "30" {
		t.Fatal(refused)
	}
	if found := ask(limited, "X-User", "b").Header().Get("RateLimit"); !strings.HasSuffix(found, `"all";r=6;t=1200`) {
		t.Fatal(found)
	}
}

func TestAnswersKeepWhatIsAroundTheHandler(t *testing.T) {
	client := countdowntest.New(t).Client
	count := 0
	handler := http.HandlerFunc(func(writer http.ResponseWriter, _ *http.Request) {
		count++
		writer.Header().Del("X-Frame")
		http.SetCookie(writer, &http.Cookie{Name: "order", Value: "1"})
		writer.WriteHeader(http.StatusCreated)
		writer.Header().Set("X-Late", "1")
	})
	once := Idempotent(client, Idempotency{Name: "orders"}, handler)
	session := ""
	around := http.HandlerFunc(func(writer http.ResponseWriter, request *http.Request) {
		http.SetCookie(writer, &http.Cookie{Name: "session", Value: session})
		writer.Header().Set("X-Frame", "DENY")
		once.ServeHTTP(writer, request)
	})
	for _, session = range []string{"a", "b"} {
		reply := ask(around, "Idempotency-Key", "k")
		found := strings.Join(reply.Header().Values("Set-Cookie"), " ")
		if reply.Code != 201 || found != "session="+session+" order=1" || reply.Header().Get("X-Late") != "" {
			t.Fatal(reply, found)
		}
	}
	if count != 1 {
		t.Fatal(count)
	}
}

func TestErrorsOfTheDaemonAreToldToTheHook(t *testing.T) {
	client := countdownd.New("/nowhere")
	defer client.Close()
	seen := 0
	note := func(error, *http.Request) { seen++ }
	limit := Limit{Name: "a", Burst: 1, Rate: "1/1s", OnError: note}
	for index, one := range []struct {
		handler http.Handler
		status  int
	}{
		{Throttle(client, limit, nothing), 200},
		{Idempotent(client, Idempotency{Name: "a", OnError: note}, nothing), 503},
		{Idempotent(client, Idempotency{Name: "a", OnError: note, Fail: Open}, nothing), 200},
	} {
		if reply := ask(one.handler, "Idempotency-Key", "k"); reply.Code != one.status || seen != index+1 {
			t.Fatal(reply, seen)
		}
	}
}

func TestAKeyCanBeRequired(t *testing.T) {
	if reply := ask(Idempotent(nil, Idempotency{Name: "a", Required: true}, nothing)); reply.Code != 400 {
		t.Fatal(reply)
	}
}

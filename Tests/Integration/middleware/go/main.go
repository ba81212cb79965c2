// The app of net/http; middleware_tools.py has the routes.
package main

import (
	"encoding/json"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"time"

	"countdownd"
	"countdownd/countdownhttp"
)

var runs = os.Getenv("RUNS")

type order struct {
	Answer string
	Wait   float64
	Size   int
}

func note(name, key string) {
	file, err := os.OpenFile(runs, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		panic(err)
	}
	defer file.Close()
	fmt.Fprintf(file, "%s %s\n", name, key)
}

func reply(writer http.ResponseWriter, status int, body any) {
	writer.Header().Set("Content-Type", "application/json")
	writer.WriteHeader(status)
	_ = json.NewEncoder(writer).Encode(body)
}

func handle(name string) http.Handler {
	return http.HandlerFunc(func(writer http.ResponseWriter, request *http.Request) {
		var its order
		if err := json.NewDecoder(request.Body).Decode(&its); err != nil {
			http.Error(writer, "This is no order.", http.StatusBadRequest)
			return
		}
		key := request.Header.Get("Idempotency-Key")
		if key == "" {
			key = "-"
		}
		note(name, key)
		end := time.Now().Add(time.Duration(its.Wait * float64(time.Second)))
		for ; time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
			if _, err := os.Stat(runs + "." + key); err == nil {
				break
			}
			if err := request.Context().Err(); err != nil {
				panic(err)
			}
		}
		answer(writer, request, its)
	})
}

func answer(writer http.ResponseWriter, request *http.Request, its order) {
	one := map[string]int{"id": 1}
	header := writer.Header()
	switch its.Answer {
	case "json":
		reply(writer, http.StatusOK, one)
	case "text":
		header.Set("Content-Type", "text/plain; charset=utf-8")
		// In parts, as many programs do.
		fmt.Fprint(writer, "tea for ")
		fmt.Fprint(writer, "two: 2 €")
	case "bytes":
		header.Set("Content-Type", "application/octet-stream")
		bytes := make([]byte, 256)
		for index := range bytes {
			bytes[index] = byte(index)
		}
		_, _ = writer.Write(bytes)
	case "created":
		header.Set("Location", "/orders/1")
		reply(writer, http.StatusCreated, one)
	case "redirect":
		http.Redirect(writer, request, "/orders/1", http.StatusSeeOther)
	case "empty":
		writer.WriteHeader(http.StatusNoContent)
	case "cookie":
		http.SetCookie(writer, &http.Cookie{Name: "a", Value: "1", HttpOnly: true})
		http.SetCookie(writer, &http.Cookie{Name: "b", Value: "2", MaxAge: 60})
		reply(writer, http.StatusOK, one)
	case "missing":
		reply(writer, http.StatusNotFound, map[string]string{"message": "no such tea"})
	case "stream":
		for _, part := range []string{"a", "b"} {
			fmt.Fprint(writer, part)
			writer.(http.Flusher).Flush()
		}
	case "huge":
		fmt.Fprint(writer, strings.Repeat("x", its.Size))
	case "many":
		header.Set("Retry-After", "7")
		reply(writer, http.StatusTooManyRequests, one)
	case "error":
		reply(writer, http.StatusInternalServerError, one)
	case "raise":
		panic("as asked")
	case "die":
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	}
}

// recovering answers 500 after a panic, as the middleware of most programs does.
func recovering(next http.Handler) http.Handler {
	return http.HandlerFunc(func(writer http.ResponseWriter, request *http.Request) {
		defer func() {
			if problem := recover(); problem != nil {
				log.Print(problem)
				http.Error(writer, "Internal server error.", http.StatusInternalServerError)
			}
		}()
		next.ServeHTTP(writer, request)
	})
}

func main() {
	client, mux := countdownd.New(""), http.NewServeMux()
	user := func(request *http.Request) string { return request.Header.Get("X-User") }
	for _, name := range []string{"orders", "payments", "brief"} {
		options := countdownhttp.Idempotency{Name: name, Lease: 2 * time.Second, User: user}
		if name == "brief" {
			options.TTL = 3 * time.Second
		}
		mux.Handle("/"+name, countdownhttp.Idempotent(client, options, handle(name)))
	}
	ok := http.HandlerFunc(func(writer http.ResponseWriter, _ *http.Request) {
		reply(writer, http.StatusOK, struct{}{})
	})
	limit := func(path string, limit countdownhttp.Limit) {
		if limit.Name == "" {
			limit.Name = path
		}
		if limit.Rate == "" && limit.Named == nil {
			limit.Burst, limit.Rate = 10, "10/1h"
		}
		limit.Address = func(request *http.Request) string { return request.Header.Get("X-Client") }
		mux.Handle(path, countdownhttp.Throttle(client, limit, ok))
	}
	search := countdownhttp.Limit{
		Name: "search", Skip: func(request *http.Request) bool { return request.URL.Path == "/health" },
	}
	limit("/search", search)
	limit("/health", search)
	limit("/login", countdownhttp.Limit{Fail: countdownhttp.Closed})
	limit("/costly", countdownhttp.Limit{Cost: 5})
	limit("/open", countdownhttp.Limit{Burst: 1, Rate: "1/1h", Fail: countdownhttp.Open})
	limit("/unknown", countdownhttp.Limit{Named: []countdownhttp.NamedLimit{{Name: "nowhere"}}})
	nobody := func(*http.Request) string { return "" }
	limit("/nokey", countdownhttp.Limit{Burst: 1, Rate: "1/1h", Key: nobody})

	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("port", listener.Addr().(*net.TCPAddr).Port)
	log.Fatal(http.Serve(listener, recovering(mux)))
}

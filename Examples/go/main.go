// Rate limits, idempotent orders and a debounced job with net/http, in one file.
//
//	countdownd --socket ./countdownd.sock --state-directory ./state
//	COUNTDOWND_SOCKET=./countdownd.sock go run .
package main

import (
	"context"
	"encoding/json"
	"log"
	"net/http"
	"strings"
	"time"

	"countdownd"
	"countdownd/countdownhttp"
)

type order struct {
	ID   int    `json:"id"`
	Item string `json:"item"`
}

// handler returns the service.
func handler(client *countdownd.Client) http.Handler {
	orders := make(chan int, 1)
	orders <- 0
	search := http.HandlerFunc(func(writer http.ResponseWriter, _ *http.Request) {
		reply(writer, http.StatusOK, map[string][]string{"found": {}})
	})
	place := http.HandlerFunc(func(writer http.ResponseWriter, request *http.Request) {
		var its order
		if err := json.NewDecoder(request.Body).Decode(&its); err != nil {
			http.Error(writer, "This is no order.", http.StatusBadRequest)
			return
		}
		its.ID = <-orders + 1
		orders <- its.ID
		reply(writer, http.StatusCreated, its)
	})
	save := func(writer http.ResponseWriter, request *http.Request) {
		name := strings.TrimPrefix(request.URL.Path, "/documents/")
		options := countdownd.DebounceCallOptions{MaxWait: countdownd.Some(30 * time.Second), Payload: []byte(name)}
		answer, err := client.Debounce.Call(request.Context(), "reindex:"+name, 2*time.Second, options)
		if err != nil {
			http.Error(writer, "Try again later.", http.StatusServiceUnavailable)
			return
		}
		reply(writer, http.StatusAccepted, map[string]int64{"calls": answer.Calls})
	}
	mux := http.NewServeMux()
	mux.Handle("/search", countdownhttp.Throttle(client, countdownhttp.Limit{Name: "search", Burst: 10, Rate: "10/1m"}, search))
	mux.Handle("/orders", countdownhttp.Idempotent(client, countdownhttp.Idempotency{Name: "orders", Required: true}, place))
	mux.HandleFunc("/documents/", save)
	return mux
}

func reply(writer http.ResponseWriter, status int, body any) {
	writer.Header().Set("Content-Type", "application/json")
	writer.WriteHeader(status)
	_ = json.NewEncoder(writer).Encode(body)
}

// work calls reindex once nobody has saved a document for 2 s. It connects again by itself, and gets
// what has fired meanwhile.
func work(ctx context.Context, client *countdownd.Client, reindex func(name string)) error {
	watch := client.Watch(ctx, countdownd.WatchOptions{}, "debounce:reindex:*")
	defer watch.Close()
	for watch.Next() {
		if event := watch.Event(); event.Name == "fired" {
			reindex(string(event.Debounce().Payload))
		}
	}
	return watch.Err()
}

func main() {
	client := countdownd.New("")
	go func() {
		log.Fatal(work(context.Background(), client, func(name string) { log.Print("reindexed ", name) }))
	}()
	log.Fatal(http.ListenAndServe("127.0.0.1:8080", handler(client)))
}

// The driver of the Go client; contract_tools.py has what a driver is.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"countdownd"
)

type operation struct {
	ID          int
	Do, Call    string
	Key, Token  string
	IsCancelled bool `json:"is_cancelled"`
	WithinMS    int  `json:"within_ms"`
	TimeoutMS   int  `json:"timeout_ms"`
	Of, Count   int
	Words       []string
	Patterns    []string
	Since       string
}

type fields map[string]any

var (
	client   *countdownd.Client
	printing sync.Mutex
	running  sync.WaitGroup
	cancels  = map[int]context.CancelFunc{}
	watches  = map[int]*countdownd.Watch{}
	more     = map[int]chan struct{}{}
)

func say(id int, more fields) {
	if more == nil {
		more = fields{}
	}
	more["id"] = id
	text, err := json.Marshal(more)
	if err != nil {
		panic(err)
	}
	printing.Lock()
	defer printing.Unlock()
	fmt.Println(string(text))
}

func failure(err error) fields {
	kinds := []string{}
	for name, kind := range map[string]error{
		"unsure": countdownd.ErrUnsure, "down": countdownd.ErrDown, "closed": countdownd.ErrClosed,
		"cancelled": context.Canceled, "timeout": context.DeadlineExceeded,
		"NOPERM": countdownd.ErrNotPermitted, "LIMIT": countdownd.ErrLimit,
	} {
		if errors.Is(err, kind) {
			kinds = append(kinds, name)
		}
	}
	if len(kinds) == 0 && strings.HasPrefix(err.Error(), "countdownd: ") {
		kinds = append(kinds, "argument")
	}
	return fields{"is": kinds, "text": err.Error()}
}

func call(ctx context.Context, its operation) (any, error) {
	if its.Key == "" {
		its.Key = "k"
	}
	switch its.Call {
	case "start":
		options := countdownd.CountdownStartOptions{Count: 60, Token: its.Token}
		answer, err := client.Countdown.Start(ctx, its.Key, options)
		if err != nil {
			return nil, err
		}
		return answer.Decision, nil
	case "done":
		answer, err := client.Once.Done(ctx, its.Key, []byte("r"), countdownd.OnceDoneOptions{Generation: countdownd.Some[int64](1)})
		if err != nil {
			return nil, err
		}
		return answer.Decision, nil
	case "set":
		_, err := client.Timer.Set(ctx, its.Key, time.Second, countdownd.TimerSetOptions{})
		return "", err
	case "ping":
		return client.Ping(ctx, countdownd.PingOptions{})
	case "wrong", "missing":
		// What is wrong with other calls, the compiler finds.
		_, err := client.Command(ctx)
		return nil, err
	case "raw":
		return client.Command(ctx, its.Words...)
	}
	panic(its.Call)
}

func follow(watch *countdownd.Watch, its operation, turns chan struct{}) {
	for {
		<-turns
		if !watch.Next() {
			break
		}
		event := watch.Event()
		say(its.ID, fields{"name": event.Name, "key": event.Key, "seq": event.Seq, "cursor": event.Cursor})
	}
	end := fields{}
	if err := watch.Err(); err != nil {
		end = failure(err)
	}
	end["end"] = true
	say(its.ID, end)
}

func handle(its operation) {
	switch its.Do {
	case "open":
		options := []countdownd.Option{}
		if its.TimeoutMS > 0 {
			options = append(options, countdownd.WithTimeout(time.Duration(its.TimeoutMS)*time.Millisecond))
		}
		client = countdownd.New("", options...)
		say(its.ID, fields{"timeout_ms": client.Timeout().Milliseconds()})
		return
	case "call":
		ctx, cancel := context.WithCancel(context.Background())
		if its.WithinMS > 0 {
			ctx, cancel = context.WithTimeout(ctx, time.Duration(its.WithinMS)*time.Millisecond)
		}
		cancels[its.ID] = cancel
		if its.IsCancelled {
			cancel()
		}
		running.Add(1)
		go func() {
			defer running.Done()
			defer cancel()
			value, err := call(ctx, its)
			if err != nil {
				say(its.ID, failure(err))
			} else {
				say(its.ID, fields{"value": value})
			}
		}()
		return
	case "cancel":
		cancels[its.Of]()
	case "watch":
		watch := client.Watch(context.Background(), countdownd.WatchOptions{Since: its.Since}, its.Patterns...)
		turns := make(chan struct{}, 1<<20)
		watches[its.ID], more[its.ID] = watch, turns
		count := its.Count
		if count == 0 {
			count = 1 << 19
		}
		for ; count > 0; count-- {
			turns <- struct{}{}
		}
		running.Add(1)
		go func() {
			defer running.Done()
			follow(watch, its, turns)
		}()
		return
	case "more":
		for ; its.Count > 0; its.Count-- {
			more[its.Of] <- struct{}{}
		}
	case "end":
		watches[its.Of].Close()
	case "close":
		client.Close()
	}
	say(its.ID, nil)
}

func main() {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var its operation
		if err := json.Unmarshal(lines.Bytes(), &its); err != nil {
			panic(err)
		}
		handle(its)
	}
	// It ends by itself, so nothing of it goes on.
	if client != nil {
		client.Close()
	}
	for _, turns := range more {
		turns <- struct{}{}
	}
	running.Wait()
}

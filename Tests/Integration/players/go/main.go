// Plays commands through the Go client; see test_client_flows.py.
package main

import (
	"bufio"
	"context"
	"countdownd"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"strings"
	"sync"
	"time"
)

type asked struct {
	Connection, Owner, Method string
	Positions                 []any
	Rest                      []string
	Options                   map[string]any
}

var mutex sync.Mutex

func say(what map[string]any) {
	text, err := json.Marshal(what)
	if err != nil {
		panic(err)
	}
	mutex.Lock()
	defer mutex.Unlock()
	fmt.Println(string(text))
}

// set puts a value of JSON into a variable.
func set(target reflect.Value, value any) {
	if its, ok := value.(map[string]any); ok && target.Kind() != reflect.Pointer {
		target.SetInt(int64(its["ms"].(float64)) * int64(time.Millisecond))
		return
	}
	switch target.Kind() {
	case reflect.Pointer:
		target.Set(reflect.New(target.Type().Elem()))
		set(target.Elem(), value)
	case reflect.Slice:
		if list, ok := value.([]any); ok {
			target.Set(reflect.MakeSlice(target.Type(), len(list), len(list)))
			for index, one := range list {
				set(target.Index(index), one)
			}
			return
		}
		target.SetBytes([]byte(value.(string)))
	case reflect.Float64:
		target.SetFloat(value.(float64))
	case reflect.Int64:
		target.SetInt(int64(value.(float64)))
	default:
		target.Set(reflect.ValueOf(value).Convert(target.Type()))
	}
}

func call(client *countdownd.Client, line asked) []reflect.Value {
	find := func(value reflect.Value, name string) reflect.Value {
		return value.FieldByNameFunc(func(its string) bool {
			return strings.EqualFold(its, strings.ReplaceAll(name, "_", ""))
		})
	}
	owner := find(reflect.ValueOf(client).Elem(), line.Owner)
	method := owner.MethodByName(strings.ToUpper(line.Method[:1]) + line.Method[1:])
	kind := method.Type()
	words := []reflect.Value{reflect.ValueOf(context.Background())}
	for index, value := range line.Positions {
		word := reflect.New(kind.In(1 + index)).Elem()
		set(word, value)
		words = append(words, word)
	}
	if kind.NumIn() > len(words) {
		options := reflect.New(kind.In(len(words))).Elem()
		for name, value := range line.Options {
			set(find(options, name), value)
		}
		words = append(words, options)
	}
	for _, word := range line.Rest {
		words = append(words, reflect.ValueOf(word))
	}
	return method.Call(words)
}

func plain(value reflect.Value) any {
	switch its := value.Interface().(type) {
	case bool:
		if its {
			return 1
		}
		return 0
	case string, int64, time.Time:
		return its
	}
	if value.IsNil() {
		return nil
	}
	return value.Elem().FieldByName("Raw").Interface()
}

func main() {
	client := countdownd.New(os.Args[1])
	watch := client.Watch(context.Background(), countdownd.WatchOptions{}, "*")
	go func() {
		for watch.Next() {
			event := watch.Event()
			say(map[string]any{"event": []any{event.Kind + ":" + event.Key, event.Raw}})
		}
	}()
	say(map[string]any{"ready": true})
	named := map[string]*countdownd.Client{"": client}
	for input := bufio.NewScanner(os.Stdin); input.Scan(); {
		var line asked
		if err := json.Unmarshal(input.Bytes(), &line); err != nil {
			panic(err)
		}
		if line.Owner == "quit" {
			if _, err := named[line.Connection].Command(context.Background(), "QUIT"); err != nil {
				panic(err)
			}
			named[line.Connection].Close()
			delete(named, line.Connection)
			say(map[string]any{"reply": "OK"})
			continue
		}
		if named[line.Connection] == nil {
			named[line.Connection] = client.Connected()
		}
		results := call(named[line.Connection], line)
		if failure, _ := results[len(results)-1].Interface().(error); failure != nil {
			say(map[string]any{"error": failure.Error()})
		} else if len(results) == 1 {
			say(map[string]any{"reply": "OK"})
		} else {
			say(map[string]any{"reply": plain(results[0])})
		}
	}
}

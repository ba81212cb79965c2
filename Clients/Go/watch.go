package countdownd

import (
	"context"
	"encoding/json"
	"errors"
	"sort"
	"strconv"
	"strings"
	"time"
)

// Event is something that happened to an entity. Its name is one of those in the reference of its
// kind, or "snapshot": the state when the watch began, or "gap": events may be missing, so read the
// state. Its methods return the status of the entity; fields that the event does not have are empty.
type Event struct {
	Kind, Name, Key string
	Generation      int64
	// Seq rises across the whole daemon and across restarts.
	Seq    int64
	Reason Reason
	Raw    Raw
}

func toEvent(channel, line string) Event {
	var raw Raw
	// The daemon writes valid JSON.
	_ = json.Unmarshal([]byte(line), &raw)
	kind, _, _ := strings.Cut(channel, ":")
	return Event{
		Kind: kind, Name: raw.text("event"), Key: raw.text("key"), Generation: raw.integer("generation"),
		Seq: raw.integer("seq"), Reason: Reason(raw.text("reason")), Raw: raw,
	}
}

// WatchOptions has the options of Watch.
type WatchOptions struct {
	// Since is the Seq of the last event that you have: the events after it come first.
	Since int64
	// WithoutSnapshots leaves out the states at the beginning.
	WithoutSnapshots bool
}

// Watch sends the events of channels such as "countdown:*", as they happen, until the context ends;
// then the channel is closed. It begins with a snapshot of each entity. It connects again by itself,
// and misses nothing that the event log has; else it sends a "gap".
func (client *Client) Watch(ctx context.Context, options WatchOptions, patterns ...string) (<-chan Event, error) {
	watch := &watch{client: client, patterns: patterns, options: options, cursor: options.Since}
	watch.hasCursor = options.Since > 0
	one, waiting, err := watch.subscribe(ctx)
	if err != nil && !errors.Is(err, ErrLoading) {
		return nil, err
	}
	events := make(chan Event)
	go watch.run(ctx, one, waiting, events)
	return events, nil
}

type watch struct {
	client    *Client
	patterns  []string
	options   WatchOptions
	cursor    int64
	hasCursor bool
}

var pauses = []time.Duration{0, 10, 20, 50, 100, 200, 500}

func (watch *watch) run(ctx context.Context, one *connection, waiting []Event, events chan<- Event) {
	defer close(events)
	for attempt := 0; ; attempt++ {
		if one != nil {
			attempt = 0
			watch.follow(ctx, one, waiting, events)
			one.close()
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pauses[min(attempt, len(pauses)-1)] * time.Millisecond):
		}
		one, waiting, _ = watch.subscribe(ctx)
	}
}

// follow sends events until the connection or the context ends.
func (watch *watch) follow(ctx context.Context, one *connection, waiting []Event, events chan<- Event) {
	send := func(event Event) bool {
		switch {
		case event.Name == "snapshot":
			if watch.options.WithoutSnapshots {
				return true
			}
		case event.Name == "gap":
		case event.Seq <= watch.cursor:
			return true
		default:
			watch.cursor = event.Seq
		}
		select {
		case events <- event:
			return true
		case <-ctx.Done():
			return false
		}
	}
	for _, event := range waiting {
		if !send(event) {
			return
		}
	}
	defer one.guard(ctx)()
	for {
		value, err := one.value()
		if err != nil {
			return
		}
		if event, ok := eventOf(value); ok && !send(event) {
			return
		}
	}
}

// subscribe connects, subscribes, and reads what was missed.
func (watch *watch) subscribe(ctx context.Context) (*connection, []Event, error) {
	one, err := connect(ctx, watch.client.Path())
	if err != nil {
		return nil, nil, err
	}
	var arrived, missed []Event
	one.pushed = func(its push) {
		if event, ok := eventOf(its); ok {
			arrived = append(arrived, event)
		}
	}
	ask := func(words ...string) (any, error) {
		if err := one.write(ctx, words); err != nil {
			return nil, err
		}
		reply, err := one.read(ctx)
		if err != nil {
			return nil, err
		}
		return answerOf(reply)
	}
	fail := func(err error) (*connection, []Event, error) {
		one.close()
		return nil, nil, err
	}
	isNew := !watch.hasCursor
	if isNew {
		last, err := ask("EVENTS", "LAST")
		if err != nil {
			return fail(err)
		}
		watch.cursor, watch.hasCursor = asInteger(last), true
	}
	for _, pattern := range watch.patterns {
		// A channel has a snapshot even if there is no such entity.
		command := "SUBSCRIBE"
		if strings.ContainsAny(pattern, `*?[\`) {
			command = "PSUBSCRIBE"
		}
		if _, err := ask(command, pattern); err != nil {
			return fail(err)
		}
	}
	for more, last := !isNew, watch.cursor; more; {
		words := []string{"EVENTS", "SINCE", strconv.FormatInt(last, 10)}
		for _, pattern := range watch.patterns {
			words = append(words, "MATCH", pattern)
		}
		reply, err := ask(words...)
		if err != nil {
			return fail(err)
		}
		page := asMap(reply)
		if !page.truth("complete") && len(missed) == 0 {
			missed = append(missed, Event{Name: "gap", Raw: Raw{}})
		}
		for _, pair := range page.list("events") {
			its, _ := pair.([]any)
			missed = append(missed, toEvent(asText(its[0]), asText(its[1])))
		}
		last, more = page.integer("last_seq"), page.truth("more")
	}
	// By their order, as follow sends only events that are newer than the one before.
	all := append(missed, arrived...)
	isState := func(event Event) bool { return event.Name == "snapshot" || event.Name == "gap" }
	sort.SliceStable(all, func(a, b int) bool {
		if isState(all[a]) || isState(all[b]) {
			return isState(all[a]) && !isState(all[b])
		}
		return all[a].Seq < all[b].Seq
	})
	return one, all, nil
}

func eventOf(value any) (Event, bool) {
	its, ok := value.(push)
	if !ok || len(its) < 3 || its[0] != "message" && its[0] != "pmessage" {
		return Event{}, false
	}
	return toEvent(asText(its[len(its)-2]), asText(its[len(its)-1])), true
}

func min(a, b int) int {
	if a < b {
		return a
	}
	return b
}

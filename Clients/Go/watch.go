package countdownd

import (
	"context"
	"encoding/json"
	"errors"
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
	Seq int64
	// Cursor is where to continue after this event, on any host of a fleet: WatchOptions.Since.
	Cursor string
	Reason Reason
	Raw    Raw
}

// Position identifies the event: in a fleet it is the same on all hosts, else it is Seq.
func (event Event) Position() string {
	if position := event.Raw.text("position"); position != "" {
		return position
	}
	return strconv.FormatInt(event.Seq, 10)
}

// isState tells whether it is no event, but begins or repairs a watch.
func (event Event) isState() bool { return event.Name == "snapshot" || event.Name == "gap" }

// place is where a watch has read: a cursor of the daemon, and the newest event of each log since.
type place struct {
	cursor string
	newest map[string]string
}

func placeAt(cursor string) *place { return &place{cursor, map[string]string{}} }

func (place *place) text() string {
	text := place.cursor
	for _, position := range place.newest {
		text += "-" + position
	}
	return text
}

// stamp continues after an event.
func (place *place) stamp(event Event) Event {
	if !event.isState() {
		log, _, isShared := strings.Cut(event.Position(), ".")
		if !isShared {
			log = ""
		}
		place.newest[log] = event.Position()
	}
	event.Cursor = place.text()
	return event
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
	// Since is the Cursor of the last event that you have, on this host or another one of its fleet:
	// the events after it come first.
	Since string
	// WithoutSnapshots leaves out the states at the beginning.
	WithoutSnapshots bool
}

// Watch sends the events of channels such as "countdown:*", as they happen, until the context ends;
// then the channel is closed. It begins with a snapshot of each entity. It connects again by itself,
// and misses nothing that the event log has; else it sends a "gap".
func (client *Client) Watch(ctx context.Context, options WatchOptions, patterns ...string) (<-chan Event, error) {
	watch := &watch{client: client, patterns: patterns, options: options}
	if options.Since != "" {
		watch.at = placeAt(options.Since)
	}
	one, waiting, err := watch.subscribe(ctx)
	if err != nil && !errors.Is(err, ErrLoading) {
		return nil, err
	}
	events := make(chan Event)
	go watch.run(ctx, one, waiting, events)
	return events, nil
}

type watch struct {
	client   *Client
	patterns []string
	options  WatchOptions
	// Where to continue after the events that were sent or wait; nil before the daemon's first cursor.
	at *place
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
		if event.Name == "snapshot" && watch.options.WithoutSnapshots {
			return true
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
		if event, ok := eventOf(value); ok && !send(watch.at.stamp(event)) {
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
	isNew := watch.at == nil
	if isNew {
		cursor, err := ask("EVENTS", "CURSOR")
		if err != nil {
			return fail(err)
		}
		watch.at = placeAt(asText(cursor))
	}
	before := watch.at.text()
	at := placeAt(before)
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
	for more := !isNew; more; {
		words := []string{"EVENTS", "SINCE", at.text()}
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
			missed = append(missed, at.stamp(toEvent(asText(its[0]), asText(its[1]))))
		}
		at, more = placeAt(page.text("cursor")), page.truth("more")
	}
	watch.at = at
	return one, inOrder(arrived, missed, before, at), nil
}

// inOrder returns each event of a new subscription once: the states, what was missed, and what came
// meanwhile, in part twice. The place is the one after what was missed.
func inOrder(arrived, missed []Event, before string, at *place) []Event {
	known := map[string]bool{}
	var states, events []Event
	for _, event := range missed {
		if event.isState() {
			states = append(states, event)
		} else {
			known[event.Position()] = true
			events = append(events, event)
		}
	}
	both := -1
	for index, event := range arrived {
		if !event.isState() && known[event.Position()] {
			both = index
		}
	}
	for index, event := range arrived {
		if event.isState() {
			states = append(states, event)
			continue
		}
		// Something newer was missed than these.
		isOld := index < both && (event.Name == "tick" || event.Name == "progress")
		if event = at.stamp(event); !isOld && !known[event.Position()] {
			events = append(events, event)
		}
	}
	for index := range states {
		states[index].Cursor = before
	}
	return append(states, events...)
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

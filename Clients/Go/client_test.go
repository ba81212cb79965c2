package countdownd_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"countdownd"
	"countdownd/countdowntest"
)

var ctx = context.Background()

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func TestThreeAnswers(t *testing.T) {
	daemon := countdowntest.Configured(t, "policies:\n  login: {ladder: [30s, 60s]}\n")
	start := func(token string) *countdownd.CountdownAnswer {
		return must(daemon.Client.Countdown.Start(ctx, "+45", countdownd.CountdownStartOptions{Policy: "login", Token: token}))
	}
	if answer := start("request-1"); !answer.IsAccepted() {
		t.Fatal(answer)
	}
	if answer := start("request-1"); answer.Decision != countdownd.Repeated {
		t.Fatal(answer)
	}
	answer := start("")
	if !answer.IsRefused() || answer.Reason != countdownd.ReasonCooldown || answer.RetryAfter != 30*time.Second {
		t.Fatal(answer)
	}
	daemon.Advance(30 * time.Second)
	if !start("").IsAccepted() {
		t.Fatal("the cooldown is over")
	}
}

func TestSeveralLimitsAreTakenAllOrNone(t *testing.T) {
	throttle := countdowntest.Configured(t, "throttles:\n  ip: {burst: 2, rate: 2/1m}\n  all: {burst: 9, rate: 9/1h}\n").Client.Throttle
	first := must(throttle.Take(ctx, "ip:1", countdownd.ThrottleTakeOptions{Cost: 2}, "all:"))
	if !first.IsAccepted() || first.RefusedBy != "" || len(first.Views) != 2 || first.Views[1].Remaining != 7 {
		t.Fatal(first)
	}
	refused := must(throttle.Take(ctx, "all:", countdownd.ThrottleTakeOptions{}, "ip:1"))
	if !refused.IsRefused() || refused.Reason != countdownd.ReasonLimit || refused.RefusedBy != "ip:1" {
		t.Fatal(refused)
	}
	// The view is that of the limit which refuses.
	if refused.Key != "ip:1" || refused.Remaining != 0 || refused.RetryAfter != 30*time.Second {
		t.Fatal(refused)
	}
	alone := must(throttle.Take(ctx, "name", countdownd.ThrottleTakeOptions{Burst: 1, Rate: "1/1s"}))
	if len(alone.Views) != 1 || alone.Views[0].Key != "name" {
		t.Fatal(alone)
	}
}

func TestErrors(t *testing.T) {
	daemon := countdowntest.New(t)
	_, err := daemon.Client.Countdown.Resend(ctx, "nobody", countdownd.CountdownResendOptions{})
	if !errors.Is(err, countdownd.ErrNotFound) {
		t.Fatal(err)
	}
	_, err = countdownd.New("/nowhere").Ping(ctx, countdownd.PingOptions{})
	if !errors.Is(err, countdownd.ErrDown) || !strings.Contains(err.Error(), "no socket at /nowhere") {
		t.Fatal(err)
	}
	if view := must(daemon.Client.Countdown.Get(ctx, "nobody")); view != nil {
		t.Fatal(view)
	}
}

func TestOnceIsRunningOrDone(t *testing.T) {
	once := countdowntest.New(t).Client.Once
	options := countdownd.OnceBeginOptions{TTL: time.Hour}
	first := must(once.Begin(ctx, "order", options))
	if again := must(once.Begin(ctx, "order", options)); again.State != "running" {
		t.Fatal(again)
	}
	must(once.Done(ctx, "order", []byte("\xff"), countdownd.OnceDoneOptions{Generation: &first.Generation}))
	// Zero is sent, too: it is no generation.
	_, err := once.Cancel(ctx, "order", countdownd.OnceCancelOptions{Generation: countdownd.Some[int64](0)})
	if !errors.Is(err, countdownd.ErrStale) && !errors.Is(err, countdownd.ErrInvalid) {
		t.Fatal(err)
	}
	if done := must(once.Begin(ctx, "order", options)); string(done.Result) != "\xff" || !done.IsRefused() {
		t.Fatal(done)
	}
}

func TestATimerTakesAMoment(t *testing.T) {
	timer := countdowntest.New(t).Client.Timer
	at := time.Date(2026, 12, 1, 7, 0, 0, 249_000_001, time.UTC)
	set := must(timer.Set(ctx, "t", 0, countdownd.TimerSetOptions{At: at}))
	if !set.IsAccepted() || !set.Deadline.Equal(at.Truncate(time.Millisecond).Add(time.Millisecond)) {
		t.Fatal(set)
	}
	if again := must(timer.Set(ctx, "t", time.Hour, countdownd.TimerSetOptions{NX: true})); !again.IsRefused() {
		t.Fatal(again)
	}
}

func TestOwnersEndWithTheConnection(t *testing.T) {
	client := countdowntest.New(t).Client
	own := client.Connected()
	must(own.Countdown.Start(ctx, "upload", countdownd.CountdownStartOptions{Owner: "connection"}))
	own.Close()
	countdowntest.Eventually(t, func() bool { return must(client.Countdown.Get(ctx, "upload")) == nil })
	if _, err := own.Ping(ctx, countdownd.PingOptions{}); !errors.Is(err, countdownd.ErrClosed) {
		t.Fatal(err)
	}
}

func TestAWatchResumesAfterARestart(t *testing.T) {
	daemon := countdowntest.New(t)
	options := countdownd.CountdownStartOptions{Count: 60}
	must(daemon.Client.Countdown.Start(ctx, "w", options))
	limited, cancel := context.WithCancel(ctx)
	defer cancel()
	watch := daemon.Client.Watch(limited, countdownd.WatchOptions{}, "countdown:w")
	defer watch.Close()
	if !watch.Next() {
		t.Fatal(watch.Err())
	}
	if event := watch.Event(); event.Name != "snapshot" || event.Countdown().State != "counting" {
		t.Fatal(event)
	}
	next := func(name string) {
		for watch.Next() {
			if event := watch.Event(); event.Name != "snapshot" && event.Name != "tick" {
				if event.Name != name {
					t.Fatalf("%s instead of %s", event.Name, name)
				}
				return
			}
		}
		t.Fatal(watch.Err())
	}
	daemon.Restart(70 * time.Second)
	next("ready")
	must(daemon.Client.Countdown.Start(ctx, "w", options))
	next("started")
	cancel()
	for watch.Next() {
	}
	if !errors.Is(watch.Err(), context.Canceled) {
		t.Fatal(watch.Err())
	}
}

func TestGoroutinesUseTheOnlyConnectionInTurn(t *testing.T) {
	own := countdowntest.New(t).Client.Connected()
	defer own.Close()
	errs := make(chan error, 20)
	for range [20]int{} {
		go func() {
			_, err := own.Ping(ctx, countdownd.PingOptions{})
			errs <- err
		}()
	}
	for range [20]int{} {
		if err := <-errs; err != nil {
			t.Fatal(err)
		}
	}
}

// A context that ends at the end of a call never disturbs the next one on the connection.
func TestManyCallsWithContextsThatEnd(t *testing.T) {
	client := countdowntest.New(t).Client
	for range [2000]int{} {
		limited, cancel := context.WithCancel(ctx)
		if _, err := client.Ping(limited, countdownd.PingOptions{}); err != nil {
			t.Fatal(err)
		}
		cancel()
	}
}

func TestAHookIsToldOfEachCall(t *testing.T) {
	var calls []countdownd.Call
	note := func(_ context.Context, call countdownd.Call) { calls = append(calls, call) }
	client := countdownd.New(countdowntest.New(t).Path, countdownd.WithHook(note), countdownd.WithHook(note))
	defer client.Close()
	must(client.Ping(ctx, countdownd.PingOptions{Message: "secret"}))
	_, err := client.Countdown.Resend(ctx, "nobody", countdownd.CountdownResendOptions{})
	must(client.Connected().Command(ctx, "once", "get", "secret"))
	if len(calls) != 6 {
		t.Fatal(calls)
	}
	for index, expected := range []countdownd.Call{
		{Command: "PING"}, {Command: "COUNTDOWN RESEND", Err: err}, {Command: "ONCE GET"},
	} {
		if its := calls[2*index]; its.Command != expected.Command || its.Err != expected.Err || its.Duration <= 0 {
			t.Fatal(its)
		}
	}
}

func TestCallsAtOnceShareABoundedNumberOfConnections(t *testing.T) {
	daemon := countdowntest.New(t)
	client := countdownd.New(daemon.Path)
	defer client.Close()
	errs := make(chan error, 3000)
	for range [3000]int{} {
		go func() {
			_, err := client.Ping(ctx, countdownd.PingOptions{})
			errs <- err
		}()
	}
	for range [3000]int{} {
		if err := <-errs; err != nil {
			t.Fatal(err)
		}
	}
	list := must(daemon.Client.Command(ctx, "CLIENT", "LIST")).(string)
	if count := strings.Count(list, "id="); count > 101 {
		t.Fatal(count)
	}
}

package goclient

import (
	"context"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	clientcore "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/client-go/tools/record"
)

// candidate takes part in an election until it is stopped.
type candidate struct {
	*leaderelection.LeaderElector
	stop func()
}

func campaign(t *testing.T, c *cluster, namespace, identity string) candidate {
	t.Helper()
	lock := &resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Namespace: namespace, Name: "leader"},
		Client:     c.CoordinationV1(),
		LockConfig: resourcelock.ResourceLockConfig{Identity: identity},
	}
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock:            lock,
		LeaseDuration:   3 * time.Second,
		RenewDeadline:   2 * time.Second,
		RetryPeriod:     200 * time.Millisecond,
		ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) {},
			OnStoppedLeading: func() {},
		},
	})
	check(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { elector.Run(ctx) })
	stop := func() { cancel(); running.Wait() }
	t.Cleanup(stop)
	return candidate{elector, stop}
}

func TestLeaderElectionIsTakenOverAfterRelease(t *testing.T) {
	c := connect(t)
	name := namespace(t, c)
	first := campaign(t, c, name, "first")
	eventually(t, "the first candidate leads", first.IsLeader)
	second := campaign(t, c, name, "second")
	eventually(t, "the second candidate knows the leader", func() bool { return second.GetLeader() == "first" })
	renewed := func() time.Time {
		lease, err := c.CoordinationV1().Leases(name).Get(t.Context(), "leader", metav1.GetOptions{})
		check(t, err)
		return lease.Spec.RenewTime.Time
	}
	before := renewed()
	eventually(t, "the lease is renewed", func() bool { return renewed().After(before) })
	if second.IsLeader() {
		t.Fatal("there are two leaders")
	}
	first.stop()
	eventually(t, "the second candidate takes over", second.IsLeader)
	lease, err := c.CoordinationV1().Leases(name).Get(t.Context(), "leader", metav1.GetOptions{})
	check(t, err)
	if *lease.Spec.HolderIdentity != "second" || *lease.Spec.LeaseTransitions < 1 {
		t.Errorf("the lease: %v", lease.Spec)
	}
}

func TestCoreEventsAreRecordedAndCounted(t *testing.T) {
	c := connect(t)
	name := namespace(t, c)
	object, err := c.CoreV1().ConfigMaps(name).Create(t.Context(),
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "regarding"}}, metav1.CreateOptions{})
	check(t, err)
	broadcaster := record.NewBroadcaster(record.WithContext(t.Context()))
	defer broadcaster.Shutdown()
	broadcaster.StartRecordingToSink(&clientcore.EventSinkImpl{Interface: c.CoreV1().Events("")})
	recorder := broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "goclient"})
	for range 3 {
		recorder.Event(object, corev1.EventTypeWarning, "Repeated", "three times")
	}
	eventually(t, "one event counts to three", func() bool {
		list, err := c.CoreV1().Events(name).List(t.Context(),
			metav1.ListOptions{FieldSelector: "involvedObject.name=regarding,reason=Repeated"})
		check(t, err)
		return len(list.Items) == 1 && list.Items[0].Count == 3
	})
}

func TestNewEventsAreRecorded(t *testing.T) {
	c := connect(t)
	name := namespace(t, c)
	object, err := c.CoreV1().ConfigMaps(name).Create(t.Context(),
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "regarding"}}, metav1.CreateOptions{})
	check(t, err)
	broadcaster := events.NewBroadcaster(&events.EventSinkImpl{Interface: c.EventsV1()})
	check(t, broadcaster.StartRecordingToSinkWithContext(t.Context()))
	defer broadcaster.Shutdown()
	recorder := broadcaster.NewRecorder(scheme.Scheme, "drakit.dev/goclient")
	recorder.Eventf(object, nil, corev1.EventTypeNormal, "Seen", "Watching", "all is well")
	var found *eventsv1.EventList
	eventually(t, "the event is there", func() bool {
		found, err = c.EventsV1().Events(name).List(t.Context(), metav1.ListOptions{})
		check(t, err)
		return len(found.Items) == 1
	})
	if event := found.Items[0]; event.Reason != "Seen" || event.Note != "all is well" || event.EventTime.IsZero() {
		t.Errorf("the event: %+v", event)
	}
}

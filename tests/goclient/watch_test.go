package goclient

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/pager"
	"k8s.io/client-go/util/retry"
)

// log collects what an informer reported.
type log struct {
	mutex sync.Mutex
	lines []string
}

func (l *log) add(verb string, object any) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.lines = append(l.lines, verb+" "+object.(metav1.Object).GetName())
}

func (l *log) has(line string) bool {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	for _, one := range l.lines {
		if one == line {
			return true
		}
	}
	return false
}

func TestInformerSeesWhatWasThereAndWhatChanges(t *testing.T) {
	c := connect(t)
	slices := c.ResourceV1().ResourceSlices()
	t.Cleanup(func() {
		_ = slices.DeleteCollection(context.Background(), metav1.DeleteOptions{},
			metav1.ListOptions{FieldSelector: "spec.driver=goclient.drakit.dev"})
	})
	first, err := slices.Create(t.Context(), slice("goclient-before", "before"), metav1.CreateOptions{})
	check(t, err)

	factory := informers.NewSharedInformerFactoryWithOptions(c, 0, informers.WithTweakListOptions(
		func(options *metav1.ListOptions) { options.FieldSelector = "spec.driver=goclient.drakit.dev" }))
	informer := factory.Resource().V1().ResourceSlices().Informer()
	seen := &log{}
	_, err = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { seen.add("add", object) },
		UpdateFunc: func(_, object any) { seen.add("update", object) },
		DeleteFunc: func(object any) { seen.add("delete", object) },
	})
	check(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	defer factory.Shutdown()
	defer cancel()
	factory.Start(ctx.Done())
	eventually(t, "the informer is synced", informer.HasSynced)
	if !c.sent("resourceslices", "sendInitialEvents=true", "watch=true") {
		t.Errorf("the informer did not start by a watch list: %v", c.queries)
	}
	if !seen.has("add goclient-before") {
		t.Errorf("the slice from before is missing: %v", seen.lines)
	}

	first.Spec.Pool.Generation = 2
	_, err = slices.Update(t.Context(), first, metav1.UpdateOptions{})
	check(t, err)
	_, err = slices.Create(t.Context(), slice("goclient-after", "after"), metav1.CreateOptions{})
	check(t, err)
	check(t, slices.Delete(t.Context(), "goclient-before", metav1.DeleteOptions{}))
	for _, line := range []string{"update goclient-before", "add goclient-after", "delete goclient-before"} {
		eventually(t, line, func() bool { return seen.has(line) })
	}
}

func TestPagerWalksALongList(t *testing.T) {
	c := connect(t)
	maps := c.CoreV1().ConfigMaps(namespace(t, c))
	for i := range 25 {
		_, err := maps.Create(t.Context(),
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("m-%02d", i)}}, metav1.CreateOptions{})
		check(t, err)
	}
	list := pager.New(func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		return maps.List(ctx, options)
	})
	list.PageSize = 10
	count := 0
	check(t, list.EachListItem(t.Context(), metav1.ListOptions{}, func(runtime.Object) error { count++; return nil }))
	if count != 25 {
		t.Errorf("saw %d objects of 25", count)
	}
}

func TestConflictingUpdatesAreRetried(t *testing.T) {
	c := connect(t)
	claims := c.ResourceV1().ResourceClaims(namespace(t, c))
	_, err := claims.Create(t.Context(), claim("shared"), metav1.CreateOptions{})
	check(t, err)
	var group sync.WaitGroup
	failures := make(chan error, 8)
	// A conflict means that another worker got through, so nobody can lose more often than there are writes.
	backoff := wait.Backoff{Steps: 50, Duration: 5 * time.Millisecond, Factor: 1.1, Jitter: 1}
	for i := range 8 {
		group.Go(func() {
			failures <- retry.RetryOnConflict(backoff, func() error {
				found, err := claims.Get(t.Context(), "shared", metav1.GetOptions{})
				if err != nil {
					return err
				}
				metav1.SetMetaDataLabel(&found.ObjectMeta, fmt.Sprintf("worker-%d", i), "done")
				_, err = claims.Update(t.Context(), found, metav1.UpdateOptions{})
				return err
			})
		})
	}
	group.Wait()
	close(failures)
	for err := range failures {
		check(t, err)
	}
	found, err := claims.Get(t.Context(), "shared", metav1.GetOptions{})
	check(t, err)
	if len(found.Labels) != 8 {
		t.Errorf("an update was lost: %v", found.Labels)
	}
}

func TestOldVersionsAreRefusedWhenNotServed(t *testing.T) {
	c := connect(t)
	resources, err := c.Discovery().ServerPreferredResources()
	check(t, err)
	for _, list := range resources {
		for _, one := range list.APIResources {
			if one.Kind == "ResourceClaim" && list.GroupVersion != resourcev1.SchemeGroupVersion.String() {
				t.Errorf("claims are preferred in %s", list.GroupVersion)
			}
		}
	}
}

package goclient

import (
	"context"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// deadline is for one step that the cluster takes by itself.
const deadline = 20 * time.Second

// cluster is a client and the queries that it sent.
type cluster struct {
	kubernetes.Interface
	config  *rest.Config
	mutex   sync.Mutex
	queries []string
}

type recorder struct {
	http.RoundTripper
	cluster *cluster
}

func (r recorder) RoundTrip(request *http.Request) (*http.Response, error) {
	r.cluster.mutex.Lock()
	r.cluster.queries = append(r.cluster.queries, request.Method+" "+request.URL.RequestURI())
	r.cluster.mutex.Unlock()
	return r.RoundTripper.RoundTrip(request)
}

func connect(t *testing.T) *cluster {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	check(t, err)
	found := &cluster{config: config}
	config.QPS = 1000
	config.Burst = 1000
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return recorder{next, found} })
	found.Interface, err = kubernetes.NewForConfig(config)
	check(t, err)
	return found
}

// sent says whether a request with all these parts was made.
func (c *cluster) sent(parts ...string) bool {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	for _, query := range c.queries {
		all := true
		for _, part := range parts {
			all = all && strings.Contains(query, part)
		}
		if all {
			return true
		}
	}
	return false
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), 20*time.Millisecond, deadline, true,
		func(context.Context) (bool, error) { return condition(), nil })
	if err != nil {
		t.Fatalf("not within %s: %s", deadline, what)
	}
}

// namespace makes a namespace that goes away with the test.
func namespace(t *testing.T, c *cluster) string {
	t.Helper()
	made, err := c.CoreV1().Namespaces().Create(t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "goclient-"}}, metav1.CreateOptions{})
	check(t, err)
	t.Cleanup(func() {
		_ = c.CoreV1().Namespaces().Delete(context.Background(), made.Name, metav1.DeleteOptions{})
	})
	return made.Name
}

func claim(name string) *resourcev1.ResourceClaim {
	request := resourcev1.DeviceRequest{
		Name: "r", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: "goclient"},
	}
	return &resourcev1.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: resourcev1.ResourceClaimSpec{
			Devices: resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{request}},
		},
	}
}

func slice(name, pool string) *resourcev1.ResourceSlice {
	nodeName := "goclient-node"
	return &resourcev1.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: resourcev1.ResourceSliceSpec{
			Driver:   "goclient.drakit.dev",
			NodeName: &nodeName,
			Pool:     resourcev1.ResourcePool{Name: pool, Generation: 1, ResourceSliceCount: 1},
			Devices:  []resourcev1.Device{{Name: "d-0"}},
		},
	}
}

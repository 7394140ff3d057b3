package goclient

import (
	"encoding/json"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	coreapply "k8s.io/client-go/applyconfigurations/core/v1"
	metaapply "k8s.io/client-go/applyconfigurations/meta/v1"
	resourceapply "k8s.io/client-go/applyconfigurations/resource/v1"
)

func TestPatchOfEachType(t *testing.T) {
	c := connect(t)
	maps := c.CoreV1().ConfigMaps(namespace(t, c))
	made := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "m", Finalizers: []string{"a.b/one"}},
		Data:       map[string]string{"a": "1", "b": "1"},
	}
	_, err := maps.Create(t.Context(), made, metav1.CreateOptions{})
	check(t, err)
	for _, one := range []struct {
		patchType types.PatchType
		text      string
		data      map[string]string
		finalizer []string
	}{
		{types.JSONPatchType, `[{"op":"test","path":"/data/a","value":"1"},{"op":"remove","path":"/data/b"}]`,
			map[string]string{"a": "1"}, []string{"a.b/one"}},
		{types.MergePatchType, `{"data":{"a":null,"c":"3"}}`, map[string]string{"c": "3"}, []string{"a.b/one"}},
		{types.StrategicMergePatchType, `{"metadata":{"finalizers":["a.b/two"]},"data":{"d":"4"}}`,
			map[string]string{"c": "3", "d": "4"}, []string{"a.b/two", "a.b/one"}},
		{types.ApplyYAMLPatchType, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m}\ndata: {e: '5'}\n",
			map[string]string{"c": "3", "d": "4", "e": "5"}, []string{"a.b/two", "a.b/one"}},
		{types.MergePatchType, `{"metadata":{"finalizers":null}}`, map[string]string{"c": "3", "d": "4", "e": "5"}, nil},
	} {
		found, err := maps.Patch(t.Context(), "m", one.patchType, []byte(one.text), metav1.PatchOptions{FieldManager: "p"})
		if err != nil {
			t.Fatalf("%s: %v", one.patchType, err)
		}
		if !equal(found.Data, one.data) || !slices.Equal(found.Finalizers, one.finalizer) {
			t.Errorf("%s: got %v and %v", one.patchType, found.Data, found.Finalizers)
		}
	}
	_, err = maps.Patch(t.Context(), "m", types.JSONPatchType, []byte(`[{"op":"test","path":"/data/c","value":"9"}]`),
		metav1.PatchOptions{})
	if !apierrors.IsInvalid(err) {
		t.Errorf("a failed test gives %v", err)
	}
}

func equal(left, right map[string]string) bool {
	one, _ := json.Marshal(left)
	two, _ := json.Marshal(right)
	return string(one) == string(two)
}

func TestServerSideApplyByTwoManagers(t *testing.T) {
	c := connect(t)
	name := namespace(t, c)
	maps := c.CoreV1().ConfigMaps(name)
	first := metav1.ApplyOptions{FieldManager: "first"}
	second := metav1.ApplyOptions{FieldManager: "second"}
	_, err := maps.Apply(t.Context(), coreapply.ConfigMap("m", name).WithData(map[string]string{"a": "1"}), first)
	check(t, err)
	mine := coreapply.ConfigMap("m", name).WithData(map[string]string{"a": "2", "b": "2"})
	_, err = maps.Apply(t.Context(), mine, second)
	if !apierrors.HasStatusCause(err, metav1.CauseTypeFieldManagerConflict) {
		t.Fatalf("no field manager conflict: %v", err)
	}
	if want := `Apply failed with 1 conflict: conflict with "first": .data.a`; err.Error() != want {
		t.Errorf("got %q", err)
	}
	second.Force = true
	found, err := maps.Apply(t.Context(), mine, second)
	check(t, err)
	if !equal(found.Data, map[string]string{"a": "2", "b": "2"}) {
		t.Errorf("after force: %v", found.Data)
	}
	// The first manager has nothing left; what it takes up again, it shares.
	_, err = maps.Apply(t.Context(), coreapply.ConfigMap("m", name).WithData(map[string]string{"a": "2"}), first)
	check(t, err)
	found, err = maps.Apply(t.Context(), coreapply.ConfigMap("m", name), second)
	check(t, err)
	if !equal(found.Data, map[string]string{"a": "2"}) {
		t.Errorf("a shared field must stay, one of the second alone must go: %v", found.Data)
	}
	extracted, err := coreapply.ExtractConfigMap(found, "first")
	check(t, err)
	if !equal(extracted.Data, map[string]string{"a": "2"}) {
		t.Errorf("client-go reads from managedFields that first owns %v", extracted.Data)
	}
}

func TestTwoDriversApplyTheirDeviceStatus(t *testing.T) {
	c := connect(t)
	name := namespace(t, c)
	claims := c.ResourceV1().ResourceClaims(name)
	made, err := claims.Create(t.Context(), claim("c"), metav1.CreateOptions{})
	check(t, err)
	allocation := &resourcev1.AllocationResult{}
	for _, driver := range []string{"one.drakit.dev", "two.drakit.dev"} {
		allocation.Devices.Results = append(allocation.Devices.Results, resourcev1.DeviceRequestAllocationResult{
			Request: "r", Driver: driver, Pool: "p", Device: "d-0"})
	}
	made.Status.Allocation = allocation
	_, err = claims.UpdateStatus(t.Context(), made, metav1.UpdateOptions{})
	check(t, err)
	for _, driver := range []string{"one.drakit.dev", "two.drakit.dev"} {
		ready := metaapply.Condition().WithType("Ready").WithStatus(metav1.ConditionTrue).WithReason("Up").
			WithMessage("").WithLastTransitionTime(metav1.Now())
		status := resourceapply.AllocatedDeviceStatus().WithDriver(driver).WithPool("p").WithDevice("d-0").
			WithConditions(ready)
		config := resourceapply.ResourceClaim("c", name).
			WithStatus(resourceapply.ResourceClaimStatus().WithDevices(status))
		_, err = claims.ApplyStatus(t.Context(), config, metav1.ApplyOptions{FieldManager: driver, Force: true})
		check(t, err)
	}
	found, err := claims.Get(t.Context(), "c", metav1.GetOptions{})
	check(t, err)
	if len(found.Status.Devices) != 2 || len(found.Status.Devices[0].Conditions) != 1 {
		t.Errorf("the drivers' device status: %v", found.Status.Devices)
	}
	owners := map[string]string{}
	for _, entry := range found.ManagedFields {
		owners[entry.Manager+"/"+string(entry.Operation)] = entry.Subresource
	}
	if owners["one.drakit.dev/Apply"] != "status" || owners["two.drakit.dev/Apply"] != "status" {
		t.Errorf("entries: %v", owners)
	}
}

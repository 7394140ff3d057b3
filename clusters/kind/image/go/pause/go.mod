module drakit/clusters/kind/image/pause

go 1.26.0

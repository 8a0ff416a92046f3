package admission

type Snapshot struct{}

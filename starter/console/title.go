package console

// Title of each page, in the browser's bar.
func (p indexPage) Title() string { return "State" }

func (p taskPage) Title() string { return p.Task.Tenant + " / " + p.Task.Key }

func (p listPage) Title() string { return "Tasks" }

func (p findPage) Title() string { return "Find" }

func (p signinPage) Title() string { return "Sign in" }

func (p problemPage) Title() string { return "Problem" }

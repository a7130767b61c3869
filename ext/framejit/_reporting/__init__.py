"""What users see of capture: events, logs, traces, reports and what comparing runs found."""

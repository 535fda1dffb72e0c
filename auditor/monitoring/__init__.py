"""What keeps watching between audits: recording rules, alert rules and a dashboard, made of the declarations."""

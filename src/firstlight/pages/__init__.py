"""What pages share: parts, figures, formulas, templates."""

-- Each repair with what it is
-- and what it cost.
{{ config(key="repair_id", columns={"kind": ["What it is.", "not_null", {"accepted_values": ["clock", "radio"]}]}) }}
SELECT i.repair_id, i.kind, b.cents
FROM {{ ref('intake') }} AS i
LEFT JOIN {{ ref('bills') }} AS b USING (repair_id)

/** JSON mode: the required form of answers. */
import { at, make } from "./dom.js";

/** Examples of forms. @type {Record<string, { title: string, schema: object | null }>} */
const FORMS = {
  none: { title: "none, free text", schema: null },
  any: { title: "any JSON object", schema: { type: "object" } },
  person: {
    title: "a person",
    schema: {
      type: "object",
      properties: {
        name: { type: "string" },
        age: { type: "integer", minimum: 0, maximum: 150 },
        likes: { type: "array", items: { type: "string" }, maxItems: 5 },
      },
      required: ["name", "age", "likes"],
      additionalProperties: false,
    },
  },
  verdict: {
    title: "a judgement of a text",
    schema: {
      type: "object",
      properties: { language: { type: "string" }, mood: { enum: ["glad", "neutral", "sad"] }, summary: { type: "string", maxLength: 200 } },
      required: ["language", "mood", "summary"],
      additionalProperties: false,
    },
  },
};

/** Returns the error in the schema, if any. */
function fault() {
  try {
    JSON.parse(at("schema").value || "null");
    return "";
  } catch ({ message }) {
    return `This is not JSON: ${message}`;
  }
}

/** @param {string} message what is wrong; empty: nothing */
function mark(message) {
  if (message) {
    at("schema").setAttribute("aria-invalid", "true");
    at("schema-hint").dataset.refused = message;
    at("json-mode").open = true;
  } else {
    at("schema").removeAttribute("aria-invalid");
    delete at("schema-hint").dataset.refused;
  }
}

/** Returns the form as an option. Throws if the field has no JSON. */
export function readForm() {
  const message = fault();
  mark(message);
  if (message) throw Object.assign(new Error(message), { field: at("schema") });
  const schema = JSON.parse(at("schema").value || "null");
  return schema === null ? {} : { response_format: { type: "json_schema", json_schema: { schema } } };
}

/** Marks the field if the engine refused the schema. @param {any} error */
export function refuseForm(error) {
  if (error.code === "bad-option" && error.detail?.option === "response_format") {
    mark(error.message);
    at("schema").focus();
  }
}

export function startForms() {
  at("schema-preset").append(...Object.entries(FORMS).map(([value, { title }]) => make("option", { value, textContent: title })));
  at("schema-preset").append(make("option", { value: "own", textContent: "one of your own", hidden: true }));
  at("schema-preset").addEventListener("change", () => {
    const { schema } = FORMS[at("schema-preset").value];
    at("schema").value = schema ? JSON.stringify(schema, null, 2) : "";
    mark("");
  });
  at("schema").addEventListener("input", () => {
    at("schema-preset").value = at("schema").value.trim() ? "own" : "none";
    mark(fault());
  });
}

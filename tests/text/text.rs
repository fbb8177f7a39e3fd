//! Text: tokens equal to Hugging Face's, streams equal to whole decodes, templates as transformers renders them, no forged tokens.

use common::tokenizers::{Random, added, built, byte_fallback, file, metaspace, tales};
use foretoken::internals::text::{ChatInput, ChatTemplate, StopStrings, TextStream, Tokenizer};
use foretoken::{Error, Message, Result};
use serde_json::{Value, json};

fn tales_template() -> ChatTemplate {
    ChatTemplate::from_files(Some(&file("models/tales/target/tokenizer_config.json")), None).unwrap().unwrap()
}

fn chat(messages: &[(&str, &str)]) -> Vec<Message> {
    messages.iter().map(|(role, content)| Message::new(*role, *content)).collect()
}

fn template(source: &str) -> Result<ChatTemplate> {
    ChatTemplate::from_files(None, Some(source.as_bytes())).map(Option::unwrap)
}

fn rendered(source: &str, messages: &[(&str, &str)]) -> String {
    template(source)
        .unwrap_or_else(|error| panic!("{source}: {error}"))
        .render(&ChatInput::new(&chat(messages)))
        .unwrap_or_else(|error| panic!("{source}: {error}"))
}

fn refused(source: &str) -> String {
    let error =
        template(source).and_then(|template| template.render(&ChatInput::new(&chat(&[("user", "hi")])))).unwrap_err();
    assert_eq!(error.code(), "bad-template");
    error.to_string()
}

fn streamed(tokenizer: &Tokenizer, prompt: &[u32], ids: &[u32]) -> String {
    let mut stream = TextStream::new(prompt);
    let mut text: String = ids.iter().map(|id| stream.push(tokenizer, *id).unwrap()).collect();
    text += &stream.finish(tokenizer).unwrap();
    text + &stream.finish(tokenizer).unwrap()
}

#[test]
fn tales_prompts_and_texts_are_those_of_transformers() {
    let tokenizer = tales();
    let golden: Value = serde_json::from_slice(&file("tests/golden/tales.json")).unwrap();
    let cases = golden["cases"].as_array().unwrap();
    assert_eq!(cases.len(), 15);
    for case in cases {
        let ids = |key: &str| -> Vec<u32> { serde_json::from_value(case[key].clone()).unwrap() };
        assert_eq!(tokenizer.encode(case["prompt"].as_str().unwrap(), true).unwrap(), ids("prompt_ids"));
        assert_eq!(tokenizer.decode(&ids("greedy_ids"), true).unwrap(), case["greedy_text"]);
        assert_eq!(streamed(&tokenizer, &ids("prompt_ids"), &ids("greedy_ids")), case["greedy_text"]);
    }
}

#[test]
fn tales_vocabulary() {
    let tokenizer = tales();
    assert_eq!(tokenizer.vocab_size(), 4096);
    assert_eq!(tokenizer.token_to_id("<|im_end|>"), Some(2));
    assert_eq!(tokenizer.id_to_token(4095).and_then(|token| tokenizer.token_to_id(&token)), Some(4095));
    assert_eq!(tokenizer.id_to_token(4096), None);
    assert!((0..3).all(|id| tokenizer.is_special(id)) && !tokenizer.is_special(3) && !tokenizer.is_special(9999));
}

#[test]
fn decoding_what_was_encoded_gives_the_text_back() {
    let mut random = Random(1);
    let (tales, llama) = (tales(), built(&byte_fallback()));
    for _ in 0..10_000 {
        let text = random.text();
        for ids in [tales.encode(&text, false).unwrap(), tales.encode_literal(&text).unwrap()] {
            assert_eq!(tales.decode(&ids, false).unwrap(), text);
        }
        if !text.contains("<|im_end|>") {
            assert_eq!(tales.encode(&text, false).unwrap(), tales.encode_literal(&text).unwrap());
        }
        // Sentencepiece encodes spaces as this character, so it cannot encode the character itself.
        let text = text.replace('▁', "");
        let ids = llama.encode_literal(&text).unwrap();
        assert_eq!(llama.decode(&ids, false).unwrap(), text);
        assert!(ids.iter().all(|id| !llama.is_special(*id)));
    }
}

#[test]
fn a_stream_says_what_a_whole_decode_says() {
    let mut random = Random(2);
    let tokenizers = [tales(), built(&byte_fallback()), built(&metaspace())];
    for round in 0..2_000 {
        for tokenizer in &tokenizers {
            let ids = random.ids(tokenizer, if round % 100 == 0 { 400 } else { 30 });
            assert_eq!(streamed(tokenizer, &[], &ids), tokenizer.decode(&ids, true).unwrap(), "{ids:?}");
        }
    }
}

#[test]
fn a_stream_of_broken_bytes_says_what_a_whole_decode_says() {
    let mut random = Random(3);
    let tales = tales();
    // Every byte, most of them invalid by themselves, and some ASCII to end invalid sequences.
    let parts: Vec<u32> = (0x60..=0xFF).map(|byte| byte_token(&tales, byte)).collect();
    for length in (0..3_000).map(|round| if round % 50 == 0 { 200 } else { 12 }) {
        let ids: Vec<u32> = (0..length).map(|_| parts[random.below(parts.len())]).collect();
        assert_eq!(streamed(&tales, &[], &ids), tales.decode(&ids, true).unwrap(), "{ids:?}");
        // Every byte of a text as its own token.
        let text = random.text();
        let ids: Vec<u32> = text.bytes().map(|byte| byte_token(&tales, byte)).collect();
        assert_eq!(streamed(&tales, &[], &ids), text);
    }
}

/// Returns a byte's token. In GPT-2's alphabet printable Latin-1 is itself, other bytes are U+0100 and up.
fn byte_token(tokenizer: &Tokenizer, byte: u8) -> u32 {
    let plain = |byte: &u8| matches!(byte, b'!'..=b'~' | 0xA1..=0xAC | 0xAE..=0xFF);
    let shifted = (0..=255u8).filter(|byte| !plain(byte)).position(|other| other == byte);
    let letter = shifted.map_or(char::from(byte), |index| char::from_u32(0x100 + index as u32).unwrap());
    tokenizer.token_to_id(&letter.to_string()).unwrap()
}

fn is_fallback(tokenizer: &Tokenizer, id: u32) -> bool {
    tokenizer.id_to_token(id).is_some_and(|token| token.starts_with("<0x"))
}

#[test]
fn a_stream_never_shows_half_a_character_or_takes_one_back() {
    let tales = tales();
    let mut stream = TextStream::new(&[]);
    let pieces: Vec<String> =
        "é👧a".bytes().map(|byte| stream.push(&tales, byte_token(&tales, byte)).unwrap()).collect();
    assert_eq!(pieces, ["", "é", "", "", "", "👧", "a"]);

    // One bad byte in a run turns all of it into U+FFFD, so the stream holds a run until it ends.
    let llama = built(&byte_fallback());
    let byte = |byte: u32| byte + 3;
    let a = llama.token_to_id("a").unwrap();
    let mut stream = TextStream::new(&[]);
    let mut pieces = |ids: &[u32]| -> Vec<String> { ids.iter().map(|id| stream.push(&llama, *id).unwrap()).collect() };
    assert_eq!(pieces(&[byte(0xC3), byte(0xA9), a]), ["", "", "éa"]);
    assert_eq!(pieces(&[byte(0xC3), byte(0xA9), byte(0xC3), a]), ["", "", "", "\u{FFFD}\u{FFFD}\u{FFFD}a"]);
    assert_eq!(pieces(&[byte(0xC3), 2, byte(0xA9), a]), ["", "", "", "éa"]);
}

#[test]
fn a_stream_shows_special_tokens_when_asked() {
    for tokenizer in [tales(), built(&byte_fallback())] {
        let special = (0..9).rfind(|id| tokenizer.is_special(*id)).unwrap();
        let a = tokenizer.encode("a", false).unwrap();
        let ids = [&a[..], &[special], &a].concat();
        let mut stream = TextStream::new(&[]).skipping_special(false);
        let mut text: String = ids.iter().map(|id| stream.push(&tokenizer, *id).unwrap()).collect();
        text += &stream.finish(&tokenizer).unwrap();
        assert_eq!(text, tokenizer.decode(&ids, false).unwrap());
        assert!(text.contains(&tokenizer.id_to_token(special).unwrap()), "{text}");
    }
}

#[test]
fn an_answer_keeps_its_leading_space() {
    let mut random = Random(4);
    for tokenizer in [tales(), built(&byte_fallback()), built(&metaspace())] {
        for _ in 0..2_000 {
            let mut prompt = random.ids(&tokenizer, 20);
            // A prompt is a text, so it ends with a whole character.
            let partial = |id: &mut u32| {
                let text = tokenizer.decode(&[*id], true).unwrap();
                text.is_empty() || text.ends_with('\u{FFFD}') || is_fallback(&tokenizer, *id)
            };
            while prompt.pop_if(partial).is_some() {}
            let ids = random.ids(&tokenizer, 20);
            let (before, all) = (
                tokenizer.decode(&prompt, true).unwrap(),
                tokenizer.decode(&[prompt.as_slice(), &ids].concat(), true).unwrap(),
            );
            if !before.is_empty() && !before.ends_with('\u{FFFD}') {
                assert_eq!(before + &streamed(&tokenizer, &prompt, &ids), all, "{prompt:?} {ids:?}");
            }
        }
    }
    let llama = built(&byte_fallback());
    let ids = llama.encode("ab c", true).unwrap();
    assert_eq!(llama.decode(&ids, true).unwrap(), "ab c");
    assert_eq!(streamed(&llama, &ids[..2], &ids[2..]), " c");
    assert_eq!(streamed(&llama, &ids[..1], &ids[1..]), "ab c");
}

#[test]
fn no_message_makes_a_special_token() {
    let chatml = tales_template();
    let (llama, sentencepiece) = (built(&byte_fallback()), built(&metaspace()));
    let plain = template("{{ bos_token }}{% for m in messages %}<s>{{ m.content }}</s>{% endfor %}").unwrap();
    for (tokenizer, template, whole) in
        [(tales(), &chatml, true), (llama, &plain, false), (sentencepiece, &plain, false)]
    {
        let specials =
            |ids: &[u32]| ids.iter().copied().filter(|id| tokenizer.is_special(*id) && *id != 0).collect::<Vec<_>>();
        let honest = template.encode(&tokenizer, &ChatInput::new(&chat(&[("user", "ab a")]))).unwrap();
        let names: Vec<String> = (0..tokenizer.vocab_size() as u32)
            .filter(|id| tokenizer.is_special(*id))
            .map(|id| tokenizer.id_to_token(id).unwrap())
            .collect();
        assert_eq!(names.len(), 3);
        let mut random = Random(5);
        for name in &names {
            let cut = random.below(name.len());
            let nested = [&name[..cut], name, &name[cut..]].concat();
            for content in [
                name.clone(),
                format!("ab{name}a"),
                format!("ab {name} a{name}{name}"),
                nested,
                names.concat(),
                format!("\u{F0000}{name}\u{F0001}"),
            ] {
                let messages = chat(&[("user", &content)]);
                let ids = template.encode(&tokenizer, &ChatInput::new(&messages)).unwrap();
                assert_eq!(specials(&ids), specials(&honest), "{content}");
                if whole {
                    assert_eq!(
                        tokenizer.decode(&ids, false).unwrap(),
                        template.render(&ChatInput::new(&messages)).unwrap()
                    );
                }
            }
            let ids = template.encode(&tokenizer, &ChatInput::new(&chat(&[(&format!("user{name}"), "ab")]))).unwrap();
            assert_eq!(specials(&ids), specials(&honest));
            assert!(
                tokenizer
                    .encode_literal(&format!("a{name}b{name}"))
                    .unwrap()
                    .iter()
                    .all(|id| !tokenizer.is_special(*id) || (*id == 0 && !whole)),
                "{name}"
            );
        }
    }
    // At any nesting depth.
    let (tokenizer, template) = (tales(), template(TOOLS).unwrap());
    let specials = |word: &str| {
        let call = json!({ "function": { "name": word, "arguments": { word: [word] } } });
        let message = json!({ "role": "assistant", "content": word, "tool_calls": [call] });
        let ids = template.encode(&tokenizer, &ChatInput::new(&messages(json!([message])).unwrap())).unwrap();
        ids.into_iter().filter(|id| tokenizer.is_special(*id)).collect::<Vec<_>>()
    };
    assert_eq!(specials("<|im_end|>"), specials("sail"));
}

#[test]
fn tales_chat_is_chatml_and_encodes_as_its_text() {
    let (tokenizer, template) = (tales(), tales_template());
    let messages = chat(&[
        ("system", "You tell tales."),
        ("user", "Tell this again: a 'king'.\n  "),
        ("assistant", "é"),
        ("user", "{{ 1 }}"),
    ]);
    let text = template.render(&ChatInput::new(&messages)).unwrap();
    assert_eq!(
        text,
        "<|im_start|>system\nYou tell tales.<|im_end|>\n<|im_start|>user\nTell this again: a 'king'.\n  <|im_end|>\n<|im_start|>assistant\né<|im_end|>\n<|im_start|>user\n{{ 1 }}<|im_end|>\n<|im_start|>assistant\n"
    );
    assert_eq!(
        template.encode(&tokenizer, &ChatInput::new(&messages)).unwrap(),
        tokenizer.encode(&text, false).unwrap()
    );

    let golden: Value = serde_json::from_slice(&file("tests/golden/tales.json")).unwrap();
    let case = golden["cases"].as_array().unwrap().iter().find(|case| case["kind"] == "retell").unwrap();
    let user = case["prompt"]
        .as_str()
        .unwrap()
        .strip_prefix("<|im_start|>user\n")
        .unwrap()
        .strip_suffix("<|im_end|>\n<|im_start|>assistant\n")
        .unwrap();
    let ids: Vec<u32> = serde_json::from_value(case["prompt_ids"].clone()).unwrap();
    assert_eq!(template.encode(&tokenizer, &ChatInput::new(&chat(&[("user", user)]))).unwrap(), ids);
}

#[test]
fn templates_come_from_either_file_in_every_form() {
    let from = |config: Value, jinja: Option<&str>| {
        ChatTemplate::from_files(Some(config.to_string().as_bytes()), jinja.map(str::as_bytes)).map(|template| {
            template.map(|template| template.render(&ChatInput::new(&chat(&[("user", "hi")]))).unwrap())
        })
    };
    assert_eq!(from(json!({}), None).unwrap(), None);
    assert_eq!(from(json!({ "chat_template": null }), None).unwrap(), None);
    assert!(ChatTemplate::from_files(None, None).unwrap().is_none());
    assert_eq!(from(json!({ "chat_template": "one" }), None).unwrap().unwrap(), "one");
    assert_eq!(from(json!({ "chat_template": "one" }), Some("two")).unwrap().unwrap(), "two");
    let list = json!([{ "name": "tool_use", "template": "tools" }, { "name": "default", "template": "three" }]);
    assert_eq!(from(json!({ "chat_template": list }), None).unwrap().unwrap(), "three");
    // transformers, too, ignores a list of templates if there is a file.
    let named = json!({ "chat_template": [{ "name": "default", "template": "four" }] });
    assert_eq!(from(named, Some("five")).unwrap().unwrap(), "five");
    for wrong in
        [json!([{ "name": "tool_use", "template": "tools" }]), json!([]), json!([{ "name": "default" }]), json!(5)]
    {
        assert_eq!(from(json!({ "chat_template": wrong }), None).unwrap_err().code(), "bad-template");
    }
    let tokens = json!({ "bos_token": "<s>", "eos_token": { "content": "</s>", "special": true }, "pad_token": null, "additional_special_tokens": ["<x>", { "content": "<y>" }] });
    let source = "{{ bos_token }}{{ eos_token }}{{ pad_token is defined }}{{ additional_special_tokens | join }}";
    assert_eq!(from(tokens, Some(source)).unwrap().unwrap(), "<s></s>False<x><y>");
    for bytes in [&b"{"[..], b"[]", b"\xFF"] {
        assert_eq!(ChatTemplate::from_files(Some(bytes), None).unwrap_err().code(), "bad-template");
    }
    assert_eq!(ChatTemplate::from_files(None, Some(b"\xFF")).unwrap_err().code(), "bad-template");
}

#[test]
fn template_quirks_of_jinja_and_python() {
    let is = |source: &str, expected: &str| {
        assert_eq!(rendered(source, &[("system", "be <b>"), ("user", "hi 'é'")]), expected, "{source}")
    };
    // Whitespace options of transformers; one newline at the end of the source is dropped.
    is("{% if true %}\n  a\n    {% endif %}\nb\n", "  a\nb");
    is("a\n    {%- if true -%}\n b {%- endif %}\n", "ab");
    is("  {# note #}\nx", "x");
    // tojson: keys in their order, no HTML escapes, Python's separators and options.
    is("{{ messages[1] | tojson }}", r#"{"role": "user", "content": "hi 'é'"}"#);
    is("{{ messages[0].content | tojson }}", r#""be <b>""#);
    is("{{ messages[1].content | tojson(ensure_ascii=true) }}", r#""hi '\u00e9'""#);
    is("{{ '👧' | tojson(ensure_ascii=True) }}", r#""\ud83d\udc67""#);
    is("{{ messages[1] | tojson(separators=(',', ':'), sort_keys=true) }}", r#"{"content":"hi 'é'","role":"user"}"#);
    is("{{ [1, 2.0, true, none, [], {}] | tojson }}", "[1, 2.0, true, null, [], {}]");
    is("{{ {'a': [1, {}], 'b': []} | tojson(indent=2) }}", "{\n  \"a\": [\n    1,\n    {}\n  ],\n  \"b\": []\n}");
    is("{{ 'a\"\\\\\n\t\x01' | tojson }}", r#""a\"\\\n\t\u0001""#);
    // Numbers as Python writes them.
    is(
        "{{ [1.0, 1e22, 1e-7, 0.00001, 1e16, 1e15, 0.1] | tojson }}",
        "[1.0, 1e+22, 1e-07, 1e-05, 1e+16, 1000000000000000.0, 0.1]",
    );
    is("{{ 1e22 }}|{{ 1.5e-7 | string }}|{{ 3 }}", "1e+22|1.5e-07|3");
    // Arguments by name.
    is(
        "{{ ''|default('x', boolean=true) }}{{ nope|default(default_value='y') }}{{ false|d('z', boolean=True) }}",
        "xyz",
    );
    is("{{ ' a '|trim(chars=' ') }}{{ 'aaa'|replace('a', 'b', 2) }}{{ 'a b'|replace(old=' ', new='_') }}", "abbaa_b");
    is(
        "{{ 'a,b,c'.split(',', maxsplit=1)|join('|') }}{{ 'a b'.split(sep=' ')|join('|') }}{{ [1,2]|join(d=', ') }}",
        "a|b,ca|b1, 2",
    );
    is(
        "{{ 'a\nb'|indent(width=2, first=true) }}{{ 'a\n'|indent(2) }}|{{ 'a\n\nb'|indent(2, blank=true) }}",
        "  a\n  ba\n|a\n  \n  b",
    );
    // The undefined value acts as an empty list.
    is(
        "{{ nope|length }}{{ messages[0].tool_calls|length }}{{ nope|count }}[{{ nope|first }}{{ nope|last }}]{{ nope|items|list }}",
        "000[][]",
    );
    // Other features of Jinja and Python.
    is(
        "{{ '%s-%d' % ('a', 3) }}{{ '%s' % 'b' }}{{ '%s' % messages[0].role|upper }}{{ +3 }}{{ 7 % 4 }}",
        "a-3bSYSTEM33",
    );
    is("{{ 'abc'.index('b') }}{{ 'abc'.find('c', 1) }}{{ 'abc'.find('a', 1) }}{{ ['a', 'b'].index('b') }}", "12-11");
    is(
        "{{ '7'.zfill(3) }}{{ '-7'.zfill(4) }}[{{ 'a'.ljust(3) }}{{ 'a'.rjust(3) }}{{ 'a'.center(4) }}{{ 'b'|center(3) }}]",
        "007-007[a    a a   b ]",
    );
    is("{{ 'a b c'.rsplit()|join('|') }}{{ \"they're\".title() }}{{ '12'.isdecimal() }}", "a|b|cThey'ReTrue");
    is(
        "{{ 'a b c'|wordcount }}{{ 'abc def ghi'|truncate(5) }}{{ 'abc def ghi'|truncate(9, leeway=0) }}",
        "3ab...abc...",
    );
    is(
        "{{ range is callable }}{{ 'a' is callable }}{{ dict([('a', 1)], b=2)['a'] }}{{ dict({'c': 3}).c }}",
        "TrueFalse13",
    );
    is(
        "{{ messages|map(attribute='role') is sequence }}{{ messages|map(attribute='role')|join(',') }}",
        "Falsesystem,user",
    );
    // Methods of Python's strings and dicts.
    is(
        "{{ ' a b '.strip().split(' ') | join('-') }}{{ 'abc'.startswith('ab') }}{{ 'x\n'.rstrip('\n').upper() }}",
        "a-bTrueX",
    );
    is(
        "{% for k, v in {'a': 1}.items() %}{{ k }}{{ v }}{% endfor %}{{ messages[0].get('role') }}{{ messages[0].get('no', 7) }}",
        "a1system7",
    );
    is("{{ 'a</think>b'.split('</think>')[-1].lstrip('\\n') }}{{ 'abc'.replace('b', '') }}{{ 'abc'[1:] }}", "bacbc");
    // Scopes, loops, tests.
    is("{% set ns = namespace(n=0) %}{% for m in messages %}{% set ns.n = ns.n + 1 %}{% endfor %}{{ ns.n }}", "2");
    is(
        "{% for m in messages %}{% if m.role == 'system' %}{% continue %}{% endif %}{{ m.role }}{% break %}{% endfor %}",
        "user",
    );
    is(
        "{% for m in messages[::-1] %}{{ loop.index0 }}{{ m.role }}{% if not loop.last %},{% endif %}{% endfor %}",
        "0user,1system",
    );
    is("{% for m in messages[1:] %}{{ loop.previtem is defined }}{{ m['content'] }}{% endfor %}", "Falsehi 'é'");
    is("{% macro say(m) %}[{{ m.role }}]{% endmacro %}{{ say(messages[0]) }}", "[system]");
    is("{% if messages[0].content is string and messages[0] is mapping and messages is sequence %}ok{% endif %}", "ok");
    is(
        "{{ 'tool_calls' in messages[0] }}{{ messages[0].tool_calls is defined }}{{ 'role' in messages[0] }}",
        "FalseFalseTrue",
    );
    is("{{ messages | selectattr('role', 'equalto', 'user') | map(attribute='content') | list | length }}", "1");
    is("{{ 'a' if false }}{{ nothing }}{{ nothing is defined }}{{ (nothing or 'x') | trim }}", "Falsex");
    is(
        "{{ 'a' is iterable }}{{ 'a' is sequence }}{{ messages[0] is sequence }}{{ none is sequence }}",
        "TrueTrueTrueFalse",
    );
    is(
        "{{ none is iterable }}{{ nothing is iterable }}{{ messages[0] is iterable }}{{ 5 is iterable }}",
        "FalseTrueTrueFalse",
    );
    // None is not undefined: transformers always passes tools and documents.
    is(
        "{{ tools is none }}{{ tools is defined }}{{ documents is not none }}{% if tools %}tools{% endif %}",
        "TrueTrueFalse",
    );
    is("{{ add_generation_prompt }}", "True");
    // Training marks do nothing and keep their whitespace control.
    is("a {% generation %} b {% endgeneration %} c", "a  b  c");
    is("a {%- generation -%} b {%- endgeneration -%} c", "abc");
    is("x\n  {% generation %}\ny\n  {%- endgeneration %}\nz", "x\nyz");
    is("{% set generation = 5 %}{% if generation %}{{ generation }}{% endif %}", "5");
    // No escaping for HTML, whatever the text.
    is("{{ messages[0].content }}{{ '<' ~ '&' }}", "be <b><&");
}

#[test]
fn a_template_can_refuse_and_knows_the_date() {
    assert!(refused("{{ raise_exception('roles must alternate') }}").contains("roles must alternate"));
    let mut dated = template("{{ strftime_now('%d %b %Y') }}").unwrap();
    dated.set_now(1_700_000_000);
    assert_eq!(dated.render(&ChatInput::new(&[])).unwrap(), "14 Nov 2023");
    let year: u32 = rendered("{{ strftime_now('%Y') }}", &[]).parse().unwrap();
    assert!(year >= 2024);
    assert!(refused("{{ strftime_now('%Q') }}").contains("%Q"));
}

#[test]
fn tokenizer_config_adds_tokens_as_in_transformers() {
    let json = byte_fallback().to_string();
    let from =
        |config: Value| Tokenizer::from_files("tokenizer.json", json.as_bytes(), Some(config.to_string().as_bytes()));
    let plain = built(&byte_fallback());
    let end = plain.vocab_size() as u32;
    // BOS and EOS in tokenizer_config.json are ignored.
    for config in [
        json!({}),
        json!({ "add_bos_token": false, "add_eos_token": true, "bos_token": null, "eos_token": { "content": "</s>" } }),
        json!({ "added_tokens_decoder": { "1": added(1, "<s>", true), "0": added(0, "<unk>", true) } }),
    ] {
        let tokenizer = from(config).unwrap();
        assert_eq!(tokenizer.difference(&plain), None);
        assert_eq!(tokenizer.encode("ab c", true).unwrap(), plain.encode("ab c", true).unwrap());
    }
    // New tokens get the next ids, in the order of their given ids; known tokens may become special.
    let decoder =
        json!({ "9000": added(0, "<b>", false), "8000": added(0, "<a>", true), "3": added(0, "<0x00>", true) });
    let tokenizer = from(json!({ "added_tokens_decoder": decoder })).unwrap();
    assert_eq!((tokenizer.token_to_id("<a>"), tokenizer.token_to_id("<b>")), (Some(end), Some(end + 1)));
    assert_eq!([end, end + 1, 3].map(|id| tokenizer.is_special(id)), [true, false, true]);
    assert_eq!(tokenizer.encode("ab<a>", false).unwrap().last(), Some(&end));
    assert!(!tokenizer.encode_literal("ab<a>").unwrap().contains(&end));
    for wrong in [json!({ "added_tokens_decoder": { "x": {} } }), json!({ "added_tokens_decoder": { "1": 5 } })] {
        assert_eq!(from(wrong).unwrap_err().code(), "bad-tokenizer");
    }
}

fn object(value: Value) -> serde_json::Map<String, Value> {
    serde_json::from_value(value).unwrap()
}

#[test]
fn the_template_is_the_one_for_tools_or_documents() {
    let entry = |name: &str, template: &str| json!({ "name": name, "template": template });
    let all = [
        entry("default", "plain{{ tools is none }}{{ documents is none }}"),
        entry("tool_use", "{{ tools[0].name }}"),
        entry("rag", "{{ documents[0].title }}"),
    ];
    let (tools, documents) = ([object(json!({ "name": "clock" }))], [object(json!({ "title": "Sky" }))]);
    let messages = chat(&[("user", "hi")]);
    let plain = ChatInput::new(&messages);
    let (with_tools, with_documents) =
        (ChatInput { tools: &tools, ..plain }, ChatInput { documents: &documents, ..plain });
    let config = |entries: &[Value]| {
        let config = json!({ "chat_template": entries }).to_string();
        ChatTemplate::from_files(Some(config.as_bytes()), None).unwrap().unwrap()
    };
    let template = config(&all);
    assert_eq!(template.render(&plain).unwrap(), "plainTrueTrue");
    assert_eq!(template.render(&with_tools).unwrap(), "clock");
    assert_eq!(template.render(&with_documents).unwrap(), "Sky");
    // As files next to chat_template.jinja.
    let mut template = self::template("plain").unwrap();
    template.add("tool_use", b"{{ tools | length }}").unwrap();
    assert_eq!(template.render(&with_tools).unwrap(), "1");
    assert_eq!(template.add("rag", b"{% if").unwrap_err().code(), "bad-template");
    assert_eq!(template.add("rag", b"\xFF").unwrap_err().code(), "bad-template");
    // If the template does not use tools or documents, they are refused.
    let lost = |chat: &ChatInput| match config(&[entry("default", "{{ toolset }}")]).render(chat) {
        Err(Error::BadOption { option, value, .. }) => (option.into_owned(), value),
        other => panic!("{other:?}"),
    };
    assert_eq!(lost(&with_tools), ("tools".into(), "tools".into()));
    assert_eq!(lost(&with_documents), ("documents".into(), "documents".into()));
    // The rendered text decides, not the words of the source.
    for source in [
        "{#- this model has no tools #}{{ messages[0].content }}",
        "{% if messages[0].role == 'system' and tools %}{{ tools | tojson }}{% endif %}{{ messages[0].content }}",
        "{% for m in messages %}{% if m.role == 'system' and m['tools'] %}{{ m['tools'] }}{% endif %}{% endfor %}",
        "{% set tools = tools %}{{ messages | length }}",
        "{{ messages[0].content }}{% if false %}{{ tools }}{{ documents }}{% endif %}",
    ] {
        for (chat, option) in [(&with_tools, "tools"), (&with_documents, "documents")] {
            match self::template(source).unwrap().render(chat) {
                Err(Error::BadOption { option: refused, .. }) => assert_eq!(refused, option, "{source}"),
                other => panic!("{source}: {other:?}"),
            }
        }
    }
}

#[test]
fn a_template_is_given_variables() {
    let source = "{{ bos_token }}{% if enable_thinking is defined and enable_thinking is false %}quick{% endif %}\
                  {{ date_string or strftime_now('%Y') }}{{ level }}{# remark #}";
    let config = json!({ "bos_token": "<s>" }).to_string();
    let mut template = ChatTemplate::from_files(Some(config.as_bytes()), Some(source.as_bytes())).unwrap().unwrap();
    template.set_now(0);
    let messages = chat(&[("user", "hi")]);
    let render = |kwargs: Value| {
        let kwargs = object(kwargs);
        template.render(&ChatInput { kwargs: Some(&kwargs), ..ChatInput::new(&messages) })
    };
    assert_eq!(render(json!({})).unwrap(), "<s>1970");
    assert_eq!(render(json!({ "enable_thinking": false, "date_string": "26 Jul" })).unwrap(), "<s>quick26 Jul");
    assert_eq!(render(json!({ "enable_thinking": true, "level": 1.5 })).unwrap(), "<s>19701.5");
    assert_eq!(render(json!({ "bos_token": "<b>" })).unwrap(), "<b>1970");
    for (wrong, name) in [
        (json!({ "enable_thought": false }), "enable_thought"),
        (json!({ "enable": false }), "enable"),
        (json!({ "remark": false }), "remark"),
        (json!({ "messages": [] }), "messages"),
        (json!({ "tools": [] }), "tools"),
        (json!({ "add_generation_prompt": false }), "add_generation_prompt"),
    ] {
        match render(wrong) {
            Err(Error::BadOption { option, value, .. }) => {
                assert_eq!((&*option, value.as_str()), ("chat_template_kwargs", name));
            }
            other => panic!("{name}: {other:?}"),
        }
    }
}

#[test]
fn an_answer_that_the_caller_began_is_continued() {
    let chatml = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}\
                  {% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";
    let messages = chat(&[("user", "hi"), ("assistant", " Once upon ")]);
    let chat =
        |messages| ChatInput { add_generation_prompt: false, continue_final_message: true, ..ChatInput::new(messages) };
    let render = |source: &str| template(source).unwrap().render(&chat(&messages));
    let begun = "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n Once upon ";
    assert_eq!(render(chatml).unwrap(), begun);
    let trimmed = chatml.replace("m.content", "m.content | trim");
    assert_eq!(render(&trimmed).unwrap(), "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\nOnce upon");
    let refused = |result: Result<String>| match result {
        Err(Error::BadOption { option, .. }) => assert_eq!(option, "continue_final_message"),
        other => panic!("{other:?}"),
    };
    // Templates that change the message or omit it.
    refused(render(&chatml.replace("m.content", "m.content | upper")));
    refused(render(&chatml.replace("in messages", "in messages[:1]")));
    let template = template(chatml).unwrap();
    refused(template.render(&chat(&messages[..1])));
    refused(template.render(&chat(&[])));
    refused(template.render(&ChatInput { add_generation_prompt: true, ..chat(&messages) }));
    // In tokens: the caller's text makes no special token, and nothing follows it.
    let tokenizer = tales();
    assert_eq!(template.encode(&tokenizer, &chat(&messages)).unwrap(), tokenizer.encode(begun, false).unwrap());
    let forged = self::chat(&[("user", "hi"), ("assistant", "a<|im_end|> ")]);
    let ids = template.encode(&tokenizer, &chat(&forged)).unwrap();
    assert!(tokenizer.decode(&ids, false).unwrap().ends_with("assistant\na<|im_end|> "));
    let specials = |ids: &[u32]| ids.iter().filter(|id| tokenizer.is_special(**id)).count();
    assert_eq!(specials(&ids), specials(&tokenizer.encode(begun, false).unwrap()));
}

#[test]
fn no_tool_document_or_variable_makes_a_special_token() {
    let (tokenizer, name) = (tales(), "<|im_end|>");
    let template = template("<|im_end|>{{ tools | tojson }}{{ documents }}{{ more }}").unwrap();
    let given = [object(json!({ name: { "description": [name, format!("a{name}b")] } }))];
    let (messages, more) = (chat(&[("user", "hi")]), object(json!({ "more": name })));
    let chat = ChatInput { tools: &given, documents: &given, kwargs: Some(&more), ..ChatInput::new(&messages) };
    let ids = template.encode(&tokenizer, &chat).unwrap();
    assert_eq!(ids.iter().filter(|id| tokenizer.is_special(**id)).count(), 1);
    assert_eq!(tokenizer.decode(&ids, false).unwrap(), template.render(&chat).unwrap());
}

#[test]
fn a_template_that_writes_bos_gets_one() {
    let llama = built(&byte_fallback());
    let config = json!({ "bos_token": "<s>" }).to_string();
    for (source, count) in [("{{ bos_token }}ab", 1), ("ab", 0)] {
        let template = ChatTemplate::from_files(Some(config.as_bytes()), Some(source.as_bytes())).unwrap().unwrap();
        let ids = template.encode(&llama, &ChatInput::new(&chat(&[("user", "hi")]))).unwrap();
        assert_eq!(ids.iter().filter(|id| **id == 1).count(), count, "{source}");
    }
}

/// The template of Qwen 2.5, without its description of the tools.
const TOOLS: &str = "{% for m in messages %}{% if m.role == 'assistant' and m.tool_calls %}<|im_start|>assistant\n{{ m.content or '' }}\
     {% for call in m.tool_calls %}<tool_call>{\"name\": \"{{ call.function.name }}\", \"arguments\": {{ call.function.arguments | tojson }}}\
     </tool_call>{% endfor %}<|im_end|>{% else %}<|im_start|>{{ m.role }}{% if m.name %} {{ m.name }}{% endif %}: {{ m.content }}<|im_end|>{% endif %}{% endfor %}";

fn messages(list: Value) -> Result<Vec<Message>> {
    list.as_array().unwrap().iter().cloned().map(Message::try_from).collect()
}

#[test]
fn what_messages_hold_reaches_the_template() {
    let template = template(TOOLS).unwrap();
    let render = |list| template.render(&ChatInput::new(&messages(list).unwrap())).unwrap();
    let call = json!({ "id": "1", "type": "function", "function": { "name": "sail", "arguments": { "to": "Ithaca", "at": [7, 1.5, true, null] } } });
    for assistant in [
        json!({ "role": "assistant", "content": null, "tool_calls": [call] }),
        json!({ "role": "assistant", "tool_calls": [call], "refusal": null, "annotations": [] }),
    ] {
        assert_eq!(
            render(
                json!([{ "role": "user", "content": "Sail", "name": "Ulysses" }, assistant, { "role": "tool", "content": "there" }])
            ),
            "<|im_start|>user Ulysses: Sail<|im_end|><|im_start|>assistant\n\
             <tool_call>{\"name\": \"sail\", \"arguments\": {\"to\": \"Ithaca\", \"at\": [7, 1.5, true, null]}}</tool_call><|im_end|>\
             <|im_start|>tool: there<|im_end|>"
        );
    }
    let parts = json!([{ "type": "text", "text": "Once " }, { "type": "text", "text": "upon" }]);
    assert_eq!(render(json!([{ "role": "user", "content": parts }])), "<|im_start|>user: Once upon<|im_end|>");
    assert_eq!(render(json!([{ "role": "user", "content": [] }])), "<|im_start|>user: <|im_end|>");
    // Fields keep their order.
    let named = json!([{ "name": "Ulysses", "role": "user", "content": "Sail" }]);
    assert_eq!(
        rendered_value("{{ messages | tojson }}", named).unwrap(),
        r#"[{"name": "Ulysses", "role": "user", "content": "Sail"}]"#
    );
}

fn rendered_value(source: &str, list: Value) -> Result<String> {
    template(source)?.render(&ChatInput::new(&messages(list)?))
}

#[test]
fn what_a_template_would_lose_is_refused_by_name() {
    let refused = |source: &str, list: Value| match rendered_value(source, list) {
        Err(Error::BadOption { option, value, .. }) => {
            assert_eq!(option, "messages");
            value
        }
        other => panic!("{other:?}"),
    };
    let plain = "{% for m in messages %}{{ m.role }}{{ m.content }}{% endfor %}";
    for (more, value) in [("name", json!("Ulysses")), ("mood", json!("calm"))] {
        let list = json!([{ "role": "user", "content": "Sail" }, { "role": "user", "content": "on", more: value }]);
        assert_eq!(refused(plain, list), format!("the field {more}"));
    }
    // Models read their earlier thoughts only where their template shows them.
    let thought = json!([{ "role": "assistant", "content": "Sail", "reasoning_content": "Hm." }]);
    assert_eq!(rendered_value(plain, thought).unwrap(), "assistantSail");
    // A template that renders names of tools still drops a user's name.
    let calls =
        "{% for m in messages %}{{ m.content }}{% for call in m.tool_calls %}{{ call.name }}{% endfor %}{% endfor %}";
    assert_eq!(refused(calls, json!([{ "role": "user", "content": "Sail", "name": "Ulysses" }])), "the field name");
    // The position of a tool's answer identifies its function.
    let answer = json!([{ "role": "tool", "content": "there", "tool_call_id": "1", "name": "sail" }]);
    assert_eq!(rendered_value(plain, answer).unwrap(), "toolthere");
    // Arguments of calls may be JSON, and keep their digits and their order.
    let arguments = r#"{"2": 123456789012345678901234567890, "1": 1.0, "b": -9223372036854775809, "a": 1e22, "s": "12345678901234567890123"}"#;
    let shown =
        "{{ messages[0].tool_calls[0].function.arguments | tojson }}{{ messages[0].tool_calls[0].function.name }}";
    let call = |arguments: Value| json!([{ "role": "assistant", "tool_calls": [{ "function": { "name": "f", "arguments": arguments } }] }]);
    assert_eq!(
        rendered_value(shown, call(json!(arguments))).unwrap(),
        format!("{}f", arguments.replace("1e22", "1e+22"))
    );
    assert_eq!(rendered_value(shown, call(json!(""))).unwrap(), "{}f");
    assert_eq!(refused(shown, call(json!("{\"cut"))), "{\"cut");
    for nothing in [json!(null), json!([])] {
        assert_eq!(
            rendered_value(plain, json!([{ "role": "user", "content": "hi", "name": nothing }])).unwrap(),
            "userhi"
        );
    }
}

#[test]
fn messages_that_are_none_are_refused_by_what_is_wrong() {
    for (message, expected) in [
        (json!(null), "null"),
        (json!("hi"), "a text"),
        (json!({ "content": "hi" }), "one without a role"),
        (json!({ "role": null, "content": "hi" }), "null as role"),
        (json!({ "role": 5, "content": "hi" }), "a number as role"),
        (json!({ "role": "user" }), "one without content"),
        (json!({ "role": "user", "content": null }), "null as content"),
        (json!({ "role": "assistant", "content": null, "tool_calls": [] }), "null as content"),
        (json!({ "role": "user", "content": 5 }), "a number as content"),
        (json!({ "role": "user", "content": { "type": "text", "text": "hi" } }), "an object as content"),
        (json!({ "role": "user", "content": ["hi"] }), "a text as a content part"),
        (json!({ "role": "user", "content": [{ "text": "hi" }] }), "an object as a content part"),
        (
            json!({ "role": "user", "content": [{ "type": "text", "text": "hi" }, { "type": "image_url", "image_url": { "url": "data:" } }] }),
            "a content part of the type image_url",
        ),
        (json!({ "role": "user", "content": [{ "type": "input_audio" }] }), "a content part of the type input_audio"),
    ] {
        let Err(Error::BadOption { option, value, allowed }) = Message::try_from(message.clone()) else {
            panic!("{message} was taken");
        };
        assert_eq!((&*option, value.as_str()), ("messages", expected), "{message}");
        assert!(!allowed.is_empty());
    }
}

#[test]
fn a_bad_template_is_an_error_and_ends() {
    for source in [
        "{% if",
        "{{ 1 + }}",
        "{% for x in y %}",
        "{% endfor %}",
        "{{ messages.x.y }}",
        "{{ no_such() }}",
        "{{ 1 | no_such }}",
        "{{ 'a'.no_such() }}",
        "{% unknown %}",
        "{{ 1 / 0 }}",
        "{{ undefined_thing.attr }}",
        "{{ nothing | tojson }}",
        "{{ range(10 ** 9) }}",
        "{{ 'a' * 10 ** 12 }}",
        // Each of these once crashed the process.
        "{{ [1] | batch(10 ** 12, 'x') }}",
        "{{ [1] | slice(10 ** 12) }}",
        "{{ 4 is divisibleby 0 }}",
        "{{ ''[::0] }}",
        "{% for x in [1] %}{{ loop.cycle() }}{% endfor %}",
        "{% for x in [1] %}{{ loop.cycle(*[]) }}{% endfor %}",
        // Sources that end inside rewritten syntax.
        "{{ '%s' % ",
        "{{ 'é",
        "{{ x[::",
        "{{ 'é'[:: }}",
    ] {
        refused(source);
    }
    // A template cannot include any file, not even itself.
    for source in [
        "{% include 'chat_template' %}",
        "{% import 'chat_template' as x %}",
        "{% extends 'chat_template' %}",
        "{% include '/etc/passwd' %}",
    ] {
        refused(source);
    }
    let loops = "{% for a in range(99999) %}{% for b in range(99999) %}{% for c in range(99999) %}{% endfor %}{% endfor %}{% endfor %}";
    assert!(refused(loops).contains("steps"));
    assert!(refused("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}").contains("recursion"));
    assert!(refused("{% set s = 'x' * 100000 %}{% for a in range(1000) %}{{ s }}{% endfor %}").contains("longer than"));
    assert!(template(&"x".repeat(65_537)).unwrap_err().to_string().contains("65537"));
    assert!(template(&"x".repeat(65_536)).is_ok());
    assert!(refused(&"{{ ".repeat(5_000)).len() < 1_000);
    refused(&format!("{{{{ {}1{} }}}}", "[".repeat(5_000), "]".repeat(5_000)));
    refused(&"{% if true %}".repeat(4_000));
}

#[test]
fn dates_are_those_of_python() {
    let render = |now, format: &str| {
        let mut template = template(&format!("{{{{ strftime_now('{format}') }}}}")).unwrap();
        template.set_now(now);
        template.render(&ChatInput::new(&chat(&[("user", "")])))
    };
    let told = |now, format| render(now, format).unwrap();
    assert_eq!(told(0, "%A %d %B %Y %H:%M:%S"), "Thursday 01 January 1970 00:00:00");
    assert_eq!(told(951_782_400, "%a, %e. %b %y"), "Tue, 29. Feb 00");
    assert_eq!(told(1_732_147_199, "%Y-%m-%d %I:%M %p"), "2024-11-20 11:59 PM");
    assert_eq!(told(1_735_689_599, "%F %T"), "2024-12-31 23:59:59");
    assert_eq!(told(4_107_542_400, "%-d/%-m/%Y %Z%z 100%%"), "1/3/2100 UTC+0000 100%");
    assert_eq!(told(i64::MAX, "%Y"), "9999");
    assert_eq!(told(i64::MIN, "%Y"), "1970");
    assert_eq!(told(951_782_400, "%j %D %U %w %u %c"), "060 02/29/00 09 2 2 Tue Feb 29 00:00:00 2000");
    assert_eq!(told(1_704_067_200, "%j %U %w %R %s"), "001 00 1 00:00 1704067200");
    assert!(render(0, "%Q").is_err() && render(0, "%").is_err());
}

#[test]
fn a_bad_tokenizer_is_an_error() {
    let refused = |bytes: &[u8]| match Tokenizer::from_json("t.json", bytes) {
        Err(Error::BadTokenizer { file, reason }) => assert!(file == "t.json" && !reason.is_empty()),
        other => panic!("{other:?}"),
    };
    refused(b"");
    refused(b"{}");
    refused(b"[]");
    refused(b"\xFF");
    refused(&b"[".repeat(100_000));
    let good = file("models/tales/target/tokenizer.json");
    for cut in [1, 100, good.len() / 2, good.len() - 2] {
        refused(&good[..cut]);
    }
    let with = |pointer: &str, value: Value| {
        let mut json = byte_fallback();
        *json.pointer_mut(pointer).unwrap() = value;
        refused(json.to_string().as_bytes());
    };
    with("/version", json!("2.0"));
    with("/model/type", json!("Oracle"));
    with("/model/vocab", json!({}));
    with("/model/vocab/a", json!(-1));
    with("/model/vocab/a", json!(u32::MAX));
    with("/model/merges", json!([["a", "nowhere"]]));
    // Longer than any token, in both notations.
    let long = "a".repeat(40);
    for merge in [json!([long, "a"]), json!(format!("{long} a"))] {
        let mut json = byte_fallback();
        json["model"]["vocab"][&long] = json!(268);
        json["model"]["merges"] = json!([merge]);
        refused(json.to_string().as_bytes());
    }
    with(
        "/pre_tokenizer",
        json!({ "type": "Split", "pattern": { "Regex": "(" }, "behavior": "Isolated", "invert": false }),
    );
    with("/normalizer", json!({ "type": "Precompiled", "precompiled_charsmap": "/////w==" }));
    with("/model/continuing_subword_prefix", json!("##"));
    with("/post_processor/single/0/SpecialToken/id", json!("<none>"));
    with("/decoder", json!({ "type": "Mirror" }));
    let word_pieces = json!({ "type": "WordPiece", "unk_token": "a", "continuing_subword_prefix": "##",
        "max_input_chars_per_word": 100, "vocab": { "a": 0, "##b": 1 } });
    let json = json!({ "version": "1.0", "added_tokens": [], "model": word_pieces });
    match Tokenizer::from_json("tokenizer.json", json.to_string().as_bytes()) {
        Err(Error::BadTokenizer { reason, .. }) => assert!(reason.starts_with("WordPiece"), "{reason}"),
        other => panic!("{other:?}"),
    }
}

/// Collects every place in a JSON value.
fn places(value: &Value, here: String, found: &mut Vec<String>) {
    match value {
        Value::Object(map) => map.iter().for_each(|(key, inner)| places(inner, format!("{here}/{key}"), found)),
        Value::Array(list) => {
            list.iter().enumerate().for_each(|(at, inner)| places(inner, format!("{here}/{at}"), found))
        }
        _ => {}
    }
    found.push(here);
}

#[test]
fn a_damaged_tokenizer_never_panics() {
    let mut random = Random(6);
    let odd = [
        json!(null),
        json!(""),
        json!(0),
        json!(-1),
        json!(1e300),
        json!(3),
        json!(u32::MAX),
        json!("a"),
        json!("<s>"),
        json!(true),
        json!([]),
        json!({}),
        json!([["a", "b"]]),
        json!({ "type": "Strip", "content": " ", "start": 2, "stop": 2 }),
        json!({ "type": "Prepend", "prepend": "" }),
        json!({ "type": "Precompiled", "precompiled_charsmap": "/////w==" }),
        json!({ "type": "Precompiled" }),
        json!({ "type": "FixedLength", "length": 0 }),
        json!({ "type": "Replace", "pattern": { "Regex": "^" }, "content": "x" }),
        json!({ "type": "BPEDecoder", "suffix": "" }),
        json!({ "type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true }),
    ];
    let (mut whole, bases) = (0, [byte_fallback(), metaspace()]);
    for _ in 0..5_000 {
        let mut json = bases[random.below(bases.len())].clone();
        for _ in 0..=random.below(2) {
            let mut all = Vec::new();
            places(&json, String::new(), &mut all);
            all.retain(|place| {
                place.matches('/').count() < 3 || !place.starts_with("/model/vocab") || random.below(20) == 0
            });
            if let Some(value) = json.pointer_mut(&all[random.below(all.len())]) {
                *value = odd[random.below(odd.len())].clone();
            }
        }
        let Ok(tokenizer) = Tokenizer::from_json("t.json", json.to_string().as_bytes()) else { continue };
        whole += 1;
        for text in ["", "ab c.", "</s>un<s>goodable,s é👧"] {
            let ids = tokenizer.encode(text, true).unwrap_or_default();
            let _ = (tokenizer.encode_literal(text), tokenizer.decode(&ids, true));
            let mut stream = TextStream::new(&ids);
            for id in 0..20 {
                let _ = stream.push(&tokenizer, id);
            }
            let _ = stream.finish(&tokenizer);
        }
    }
    assert!(whole > 200, "{whole}");
}

#[test]
fn a_damaged_template_never_panics() {
    let mut random = Random(7);
    let sources = [
        "{% for m in messages %}{{ '<s>' + m['role'] + '\\n' + m.content | trim + '</s>' }}{% endfor %}",
        "{%- macro f(x, y=1) -%}{{ x | tojson(indent=2) }}{%- endmacro -%}{% set ns = namespace(a=[]) %}{{ f({'a': 1.5}) }}",
        "{% generation %}{# é #}{{ strftime_now('%d') }}{% raw %}{{ x }}{% endraw %}{% endgeneration %}{{ messages[0:1][-1:] }}",
    ];
    for _ in 0..20_000 {
        let mut chars: Vec<char> = sources[random.below(sources.len())].chars().collect();
        for _ in 0..=random.below(4) {
            let (at, length) = (random.below(chars.len()), random.below(8));
            let piece: Vec<char> = chars.iter().skip(random.below(chars.len())).take(length).copied().collect();
            let end = (at + random.below(4)).min(chars.len());
            chars.splice(at..end, piece);
            chars.push('}');
        }
        let result = template(&chars.into_iter().collect::<String>())
            .and_then(|t| t.render(&ChatInput::new(&chat(&[("user", "hi")]))));
        assert!(result.is_ok() || result.is_err_and(|error| error.code() == "bad-template"));
    }
}

#[test]
fn tokenizers_say_how_they_differ() {
    let (ours, draft) =
        (tales(), Tokenizer::from_json("tokenizer.json", &file("models/tales/draft/tokenizer.json")).unwrap());
    assert_eq!(ours.difference(&draft), None);
    let reason = |a: &Tokenizer, b: &Tokenizer| a.difference(b).unwrap();
    let llama = built(&byte_fallback());
    assert_eq!(llama.difference(&llama), None);
    assert_eq!(reason(&ours, &llama), r#"token 0 is "<unk>", not "<|endoftext|>""#);
    let changed = |change: &dyn Fn(&mut Value)| {
        let mut json = byte_fallback();
        change(&mut json);
        built(&json)
    };
    let swapped = changed(&|json| {
        json["model"]["vocab"]["d"] = json!(264);
        json["model"]["vocab"]["e"] = json!(263);
    });
    assert_eq!(reason(&llama, &swapped), r#"token 263 is "e", not "d""#);
    let longer = changed(&|json| json["added_tokens"].as_array_mut().unwrap().push(added(270, "<extra>", true)));
    assert_eq!(reason(&llama, &longer), r#"token 270 is "<extra>", not unused"#);
    assert_eq!(reason(&longer, &llama), r#"token 270 is unused, not "<extra>""#);
    let ordinary = changed(&|json| json["added_tokens"][2]["special"] = json!(false));
    assert_eq!(reason(&llama, &ordinary), r#"token 2, "</s>", is not special"#);
    // Other merges split texts differently, but the tokens are the same: their drafts can be verified.
    assert_eq!(llama.difference(&changed(&|json| json["model"]["merges"] = json!([]))), None);
}

#[test]
fn the_same_text_has_the_same_tokens_always_and_whole() {
    let mut json = byte_fallback();
    json["model"]["dropout"] = json!(0.5);
    json["truncation"] = json!({ "direction": "Right", "max_length": 3, "strategy": "LongestFirst", "stride": 0 });
    json["padding"] = json!({ "strategy": { "Fixed": 50 }, "direction": "Right", "pad_to_multiple_of": null, "pad_id": 0, "pad_type_id": 0, "pad_token": "<unk>" });
    let (odd, plain) = (built(&json), built(&byte_fallback()));
    for _ in 0..20 {
        assert_eq!(odd.encode("ab c ab c ab", true).unwrap(), plain.encode("ab c ab c ab", true).unwrap());
    }
    assert_eq!(plain.encode("ab c", true).unwrap()[0], 1);
    json["post_processor"]["special_tokens"]["<s>"]["ids"] = json!([99_999]);
    assert_eq!(built(&json).encode("ab", true).unwrap_err().code(), "bad-tokenizer");
    assert_eq!(plain.encode("ab c", false).unwrap()[0], plain.token_to_id("▁ab").unwrap());
    assert_eq!(plain.encode("", false).unwrap(), [0u32; 0]);
    assert_eq!(plain.decode(&[], false).unwrap(), "");
}

#[test]
fn stop_strings_are_found_wherever_the_pieces_are_cut() {
    let run = |stops: &[&str], pieces: &[&str]| {
        let mut watch = StopStrings::new(stops.iter().map(|stop| (*stop).into()).collect());
        let mut shown = String::new();
        for piece in pieces {
            let (text, stopped) = watch.push(piece);
            shown += &text;
            if stopped {
                return (shown, true);
            }
        }
        (shown + &watch.finish(), false)
    };
    for (stops, text, shown, stopped) in [
        (&["</s>"][..], "ab</</s>cd", "ab</", true),
        (&["\n\nUser:", "END"], "wörd\n\nUser: x END", "wörd", true),
        (&["aab"], "aaaab", "aa", true),
        (&["👧!"], "x👧👧!y", "x👧", true),
        (&["abcabd"], "abcabcabdx", "abc", true),
        (&["xyz", "zz"], "xy", "xy", false),
    ] {
        let cuts: Vec<usize> = text.char_indices().map(|(at, _)| at).collect();
        for &first in &cuts {
            for &second in cuts.iter().filter(|second| **second >= first) {
                let pieces = [&text[..first], &text[first..second], &text[second..]];
                assert_eq!(run(stops, &pieces), (shown.to_owned(), stopped), "{pieces:?}");
            }
        }
        let letters: Vec<String> = text.chars().map(String::from).collect();
        assert_eq!(run(stops, &letters.iter().map(String::as_str).collect::<Vec<_>>()), (shown.to_owned(), stopped));
    }
}

mod stop {
    use foretoken::internals::text::StopStrings;

    fn stream(stops: &[&str], pieces: &[&str]) -> (String, bool) {
        let mut watch = StopStrings::new(stops.iter().map(|stop| stop.to_string()).collect());
        let mut shown = String::new();
        for piece in pieces {
            let (text, stopped) = watch.push(piece);
            shown += &text;
            if stopped {
                assert_eq!(watch.finish(), "");
                return (shown, true);
            }
        }
        (shown + &watch.finish(), false)
    }

    #[test]
    fn a_false_start_is_shown_as_soon_as_it_is_one() {
        let mut watch = StopStrings::new(vec!["END".into()]);
        assert_eq!(watch.push("the E"), ("the ".into(), false));
        assert_eq!(watch.push("N"), (String::new(), false));
        assert_eq!(watch.push("EN"), ("EN".into(), false));
        assert_eq!(watch.push("D and more"), (String::new(), true));
        assert_eq!(watch.push("more"), (String::new(), true));
    }

    #[test]
    fn the_first_to_be_complete_wins() {
        assert_eq!(stream(&["ab", "xabc"], &["1xabc"]), ("1x".into(), true));
        assert_eq!(stream(&["ab", "xabc"], &["1x", "a", "bc"]), ("1x".into(), true));
        assert_eq!(stream(&["ab", "xab"], &["1x", "a", "bc"]), ("1".into(), true));
    }

    #[test]
    fn nothing_to_watch_for_holds_nothing_back() {
        assert_eq!(StopStrings::new(vec![String::new()]).push("text"), ("text".into(), false));
        assert_eq!(stream(&[], &["a", "é"]), ("aé".into(), false));
    }
}

"""Makes templates.json: chat templates rendered by Python's jinja2, in the environment that transformers sets up.

pip install transformers==5.23.0 jinja2==3.1.6; python templates.py FOLDER... > templates.json. It needs no PyTorch. A folder
holds NAME.jinja files. If a template refuses a chat, the golden is null.
"""

import json
import sys
from datetime import datetime
from pathlib import Path

from transformers.utils import chat_template_utils as utils


class Then(datetime):
    """The fixed time that strftime_now returns."""

    @classmethod
    def now(cls, tz=None):
        return cls(2025, 7, 4, 15, 6, 7)


utils.datetime = Then

TOKENS = {"bos_token": "<bos>", "eos_token": "<eos>", "pad_token": "<pad>", "unk_token": "<unk>"}
WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather at a place, <now> & 'here'",
        "parameters": {
            "type": "object",
            "properties": {
                "place": {"type": "string", "description": "Where: \"Zürich\", 東京"},
                "days": {"type": "integer", "minimum": 1, "default": 1.5},
                "unit": {"type": "string", "enum": ["celsius", "kelvin"]},
                "tags": {"type": "array", "items": {"type": "string"}},
            },
            "required": ["place"],
        },
    },
}
CLOCK = {"type": "function", "function": {"name": "clock", "description": "The time", "parameters": {"type": "object", "properties": {}}}}


def says(role, content, **more):
    return {"role": role, "content": content, **more}


def calls(*names, **more):
    call = lambda at, name: {
        "id": "call0000%d" % at,
        "type": "function",
        "function": {"name": name, "arguments": {"place": "Zürich", "days": 2, "at": [1, 1.5, True, None]}},
    }
    return says("assistant", more.pop("content", ""), tool_calls=[call(at, name) for at, name in enumerate(names)], **more)


ASK = says("user", "  How is the weather in Zürich?\n")
TURNS = [says("system", "Be brief. "), ASK, says("assistant", " Fine. "), says("user", "And <b>tomorrow</b>? {{ 1 }}")]
THOUGHT = [ASK, says("assistant", "<think>\nHm, 東京?\n</think>\n\nFine."), says("user", "Why?")]
REASONED = [ASK, says("assistant", "Fine.", reasoning_content="I looked out."), says("user", "Why?")]
CALLED = [ASK, calls("get_weather"), says("tool", '{"sky": "blue"}', tool_call_id="call00000", name="get_weather")]
PONDERED = [ASK, calls("get_weather", reasoning_content="Hm.", thinking="Hm."), says("tool", "blue", name="get_weather", tool_call_id="call00000")]
TWICE = [ASK, calls("get_weather", "clock", content="I look."), says("tool", "blue"), says("tool", "noon"), says("assistant", "Fine."), says("user", "Sure?")]
CHATS = {
    "one": dict(messages=[ASK]),
    "turns": dict(messages=TURNS),
    "no prompt": dict(messages=TURNS[1:3], add_generation_prompt=False),
    "thought": dict(messages=THOUGHT),
    "reasoned": dict(messages=REASONED),
    "no thinking": dict(messages=TURNS, enable_thinking=False),
    "thinking": dict(messages=THOUGHT[:1], enable_thinking=True),
    "date": dict(messages=TURNS, date_string="26 Jul 2024"),
    "tools": dict(messages=TURNS, tools=[WEATHER, CLOCK]),
    "tools alone": dict(messages=[ASK], tools=[WEATHER]),
    "called": dict(messages=CALLED, tools=[WEATHER]),
    "called twice": dict(messages=TWICE, tools=[WEATHER, CLOCK]),
    "pondered": dict(messages=PONDERED, tools=[WEATHER]),
    "documents": dict(messages=TURNS, documents=[{"title": "Sky", "text": "It is blue."}, {"title": "Sea", "text": "So is it."}]),
    "continued": dict(messages=TURNS[:3], continue_final_message=True, add_generation_prompt=False),
    "roles": dict(messages=[says("assistant", "Hello."), says("system", "Late."), ASK, ASK]),
}

# Python's methods, Jinja's filters and tests as templates use them; `messages` are those of "turns", `tools` those of "tools".
EXPRESSIONS = """
'a-b-c'.split('-', 1) | join('|')
'a-b-c'.rsplit('-', 1) | join('|')
'a-b-c'.rsplit('-') | join('|')
'a-b-c'.rpartition('x') | join('|')
' a  b '.split() | join('|')
'a-b-c'.partition('-') | join('|')
'a-b-c'.rpartition('-')[0]
'<think>x'.removeprefix('<think>')
'x.py'.removesuffix('.py')
'a\\nb\\n'.splitlines() | join('|')
'abcab'.count('ab')
'abc'.startswith(('x', 'ab')) ~ 'abc'.endswith('bc')
'abc'.islower() ~ '12'.isdigit() ~ ' '.isspace() ~ 'a1'.isalnum()
'hello world'.title() ~ 'hello'.capitalize()
'{} is {}'.format('a', 1) ~ '{0}{x}'.format('a', x=2)
'%s and %s' | format('a', 'b')
'ab'.strip('b') ~ 'xxabxx'.lstrip('x') ~ 'ab\\n\\n'.rstrip()
', '.join(['a', 'b'])
'abcdef'[1:4] ~ 'abcdef'[-2:] ~ 'abcdef'[::-1] ~ 'abc'[0] ~ 'abc'[-1]
'a' * 3 ~ '-' * 2
[1, 2] + [3]
[1, 'a', "it's", none, true, 1.5, {'k': 'v'}]
{'a': 1, 'b': [1, 2]}
('a', 1)
1 == 1.0 and 'a' < 'b' and not (1 > 2) and 1 <= 1 < 2
{'a': 1}.get('a') ~ {'a': 1}.get('b') ~ {'a': 1}.get('b', 2) ~ ({'a': 1}.keys() | list) ~ ({'a': 1}.values() | list) ~ ({'a': 1}.items() | list)
{'b': 1, 'a': 2} | dictsort
{'b': 1, 'a': 2} | items | list
{'a': 1}['a'] ~ {'a': 1}.a
dict(a=1, b='x')
dict({'a': 1}, b=2) | tojson
{'a': none, 'b': true, 'c': 1.0, 'd': 'é<&>\\u2028'} | tojson
{'a': {'b': [1, 2, {}]}} | tojson(indent=4)
{'b': 1, 'a': [1, 2]} | tojson(separators=(',', ':'), sort_keys=true)
'é\\u007f\\\\"/' | tojson(ensure_ascii=true)
[1, 2, 3, 4, 5] | batch(2) | list
['b', 'a', 'C'] | sort
['b', 'a', 'C'] | sort(reverse=true, case_sensitive=true)
[3, 1, 2] | sort | first ~ [3, 1, 2] | last ~ [3, 1, 2] | max ~ [3, 1, 2] | min ~ [3, 1, 2] | sum
[1, 1, 2] | unique | list
[1, 2] | reverse | list
'abc' | reverse
'hello world' | replace('o', '0') | upper
'  x ' | trim ~ 'xxax' | trim('x')
'a\\nb' | indent(2)
'a\\nb' | indent(2, true)
'a\\n\\nb' | indent(4, first=false, blank=true)
-3 | abs
5 | string ~ [1] | string
nothing | default('d') ~ '' | default('d', true) ~ none | default('d') ~ none | d('e', true)
messages | map(attribute='role') | join(', ')
messages | selectattr('role', 'equalto', 'user') | list | length
messages | selectattr('role', 'ne', 'user') | map(attribute='role') | list
messages | selectattr('role', 'in', ['user', 'system']) | list | length
messages | rejectattr('role', '==', 'user') | list | length
messages | selectattr('tool_calls', 'defined') | list | length
messages | selectattr('tool_calls') | list | length
messages | map('length') | list
messages | map(attribute='name', default='?') | join
messages | groupby('role') | map('first') | list
['a', '', none, 0, 'b'] | select | list
['a', '', 'b'] | reject('eq', '') | list
[1, 2, 3, 4] | select('odd') | list
['a', 'b'] | map('upper') | list
[[1, 2], [3]] | sum(start=[])
messages | length ~ messages | count
messages[0] | length
messages[-1].role ~ messages[-1]['role'] ~ messages[1:][0].role ~ messages[:-1] | length
messages[0] is mapping ~ messages is sequence ~ messages is mapping ~ messages is iterable
'a' is string ~ 1 is number ~ 1 is integer ~ 1.0 is float ~ true is boolean ~ true is number ~ none is none
true is true ~ false is false ~ 1 is true ~ 0 is false ~ 'x' is true
nothing is defined ~ nothing is undefined ~ nothing is none ~ messages is defined ~ nothing.x is defined
4 is divisibleby 2 ~ 3 is odd ~ 4 is even ~ 'A' is upper ~ 'a' is lower ~ 'a' is in ['a'] ~ 1 is eq 1
1 is sameas 1 ~ none is sameas none
'a' in 'abc' ~ 'k' in {'k': 1} ~ 3 not in [1, 2] ~ none in [none]
'' or 'x' ~ none or 'y' ~ [] or 'z' ~ (0 and 1)
'yes' if messages else 'no'
('a' if false) ~ '|' ~ ('a' if true)
range(3) | list ~ range(1, 7, 2) | list ~ range(3, 0, -1) | list
tools[0].function.parameters.properties.keys() | list
tools[0].function.parameters.properties | length
tools[0].function.parameters | tojson | length
tools[0].function.get('strict', false)
tools is not none and tools | length > 0
(tools | map(attribute='function') | map(attribute='name') | join(', '))
tools | tojson(indent=2)
messages[3].content
'<b>' | escape
none ~ true ~ 1.0 ~ 0.1 ~ 10 / 4 ~ 4 / 2 ~ 7 // 2 ~ -7 // 2 ~ 7 % 3 ~ 2 ** 3
'abc'.find('c') ~ 'abc'.rfind('z')
'a,b' | replace(',', ';')
3.14159 | round(2) ~ 2.5 | round ~ '3' | int ~ '1.5' | float ~ 3.9 | int
messages[0].content | string | length
'日本語' | length ~ '日本語'[1] ~ '日本語'.find('語')
'x' ~ 1 ~ 1.5 ~ none
(messages | last).role ~ (messages | first)['content']
namespace(a=1).a
'a'.upper().lower().strip()
'a|b'.split('|')[-1]
strftime_now('%d %b %Y') ~ strftime_now('%Y-%m-%d %H:%M:%S') ~ strftime_now('%B %-d, %A %I:%M %p %y')
[1, 2, 3][1:] ~ [1, 2, 3][::-1] ~ [1, 2, 3][-2:]
[1, 2, 2].count(2)
{'a': 1} == {'a': 1} ~ [1] == [1] ~ 'a' != 'b'
'abc' | list
'abc' | first ~ 'abc' | last ~ 'abc' | length
1000000 ~ 12345678901234567890 ~ -1 ~ 1_000
3 | float ~ 1 | string ~ true | string ~ none | string ~ true | int
'ab' | pprint
'a' ~ ('b', 'c') | join
messages | map(attribute='content') | map('trim') | join('|')
messages | sort(attribute='role') | map(attribute='role') | list
undefined_function is defined
messages.0.role
tools.0.function.name
''[::-1] ~ [][::-1] ~ ''[::2] ~ 'abc'[5:7:-1]
'abcdef'[4:0:-2] ~ 'abcdef'[:0:-1] ~ 'abcdef'[0:3:-1] ~ 'abcdef'[10:1:-2] ~ 'abcdef'[-2:-5:-1] ~ 'abc'[-10::-1]
[1, 2, 3, 4, 5][4:0:-2] ~ [1, 2, 3, 4, 5][::-2] ~ [1, 2, 3][:-10:-1] ~ (1, 2, 3)[::-1] ~ (range(5)[::-1] | list)
-[1, 2, 3][::-1][0] ~ 'héllo'[::-1][1:3].upper() ~ 'a:b::c'.split('::')[::-1] ~ {'a': [1, 2]}['a'][::-1] ~ 'a]b'['x]'|length::-1]
messages [::-1][0].content ~ (messages[-1:0:-2] | map(attribute='role') | list)
'abc'[::0]
'12.7' | int ~ ' 5 ' | int ~ 'x' | int ~ 'x' | int(3) ~ 'x' | int(default=4) ~ 'ff' | int(0, 16) ~ none | int ~ 'inf' | int ~ false | int
'0x1f' | int(base=16) ~ 'x' | int(base=16) ~ '0b11' | int(0, 2) ~ '0x1f' | int
'1e3' | float ~ 'x' | float ~ 'x' | float(1.5) ~ ' 1.5 ' | float ~ true | float ~ [] | float(default=2.5)
'abc'.startswith('b', 1) ~ 'abc'.endswith('b', 0, 2) ~ 'aXbXc'.count('X', 2)
'a b  c '.rsplit(maxsplit=1) ~ 'a b c'.rsplit(none, 1) ~ ' a b '.rsplit() ~ 'a b c'.split(maxsplit=1) ~ ''.rsplit(none, 1)
'abc'.partition('b') ~ 'abc'.rpartition('x')
messages[0].copy().role ~ [1].copy()
{'items': 1}.items() | list ~ ({'keys': 1, 'get': 3}.keys() | list) ~ {'get': 3}.get('get')
4 is divisibleby(0)
['a', 'b', 'c'] | batch(2, 'x') | list ~ [1, 2, 3] | slice(2) | list
'%s-%d' % ('a', 3) ~ '%s' % messages[0]['role']|upper ~ 'b'
+3 ~ (1 + +2) ~ [+4] ~ {'a': {'b': +1}} ~ '}}' ~ 'it\\'s' ~ '%'
""".strip().split("\n")
BLOCKS = [
    "{% for m in messages %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.first }}{{ loop.last }}{{ loop.length }}|{% endfor %}",
    "{% for m in messages if m.role == 'user' %}{{ loop.index }}{{ m.role }}{% else %}none{% endfor %}",
    "{% for m in [] %}x{% else %}none{% endfor %}",
    "{% for k, v in tools[0].function.items() %}{{ k }}={{ v }};{% endfor %}",
    "{% for k in {'a': 1, 'b': 2} %}{{ k }}{% endfor %}",
    "{% for a, (b, c) in [(1, (2, 3))] %}{{ a }}{{ b }}{{ c }}{% endfor %}",
    "{% for c in 'ab' %}{{ loop.cycle('x', 'y') }}{{ c }}{% endfor %}",
    "{% for m in messages %}{{ loop.previtem.role if loop.previtem else '-' }}{{ loop.nextitem is defined }}{{ loop.changed(m.role) }}{% endfor %}",
    "{% set x = 1 %}{% for i in [1, 2] %}{% set x = x + i %}{{ x }}{% endfor %}{{ x }}",
    "{% set ns = namespace(x=1, found=false) %}{% for i in [1, 2] %}{% set ns.x = ns.x + i %}{% endfor %}{{ ns.x }}{{ ns.found }}",
    "{% set x %}a{{ 1 }}b{% endset %}{{ x }}{{ x | length }}",
    "{% set x | upper %}a{% endset %}{{ x }}",
    "{% set a, b = 1, 2 %}{{ a }}{{ b }}",
    "{% with a = 1, b = 2 %}{{ a + b }}{% endwith %}{{ a is defined }}",
    "{% filter upper %}a{{ 'b' }}{% endfilter %}",
    "{% macro f(a, b=2, c='x') %}{{ a }}{{ b }}{{ c }}{% endmacro %}{{ f(1) }}{{ f(1, c='y') }}{{ f(1, 3) | length }}",
    "{% macro f() %}[{{ caller() }}]{% endmacro %}{% call f() %}x{% endcall %}",
    "{% macro f(n) %}{{ n }}{% if n %}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(3) }}",
    "{% macro t(v) %}{% if v is mapping %}{{ v.type }}{% elif v is string %}s{% endif %}{% endmacro %}{{ t(tools[0]) }}{{ t('') }}",
    "{% if nothing %}a{% elif messages | length > 2 %}b{% else %}c{% endif %}",
    "{% for m in messages %}{% if loop.first %}{% continue %}{% endif %}{{ m.role }}{% if loop.index == 3 %}{% break %}{% endif %}{% endfor %}",
    "{% raw %}{{ x }}{% endraw %}{# comment #}",
    "{# {{ +3 }} #}{% raw %}{{ +3 }} [::-1]{% endraw %}{ ",
    "{% for c in 'ab' %}{{ loop.cycle() }}{% endfor %}",
    "{% if 3 +%}{{ 1 + 2 }}{%- else +%}{% endif %}",
    "  {% if true %}  \n  a\n  {% endif %}\n",
    "a\n\n  {%- if true -%}\n\n b {%- endif %} c\n\n",
    "{% if true +%}\na{% endif %}\n  {%+ if true %}b{% endif %}",
    "{{ 'a' -}}\n   b\n{{- 'c' }}\n",
    "{% generation %}{{ messages[0].content }}{% endgeneration %}|",
    "x\n  {%- generation -%}\n y\n {%- endgeneration %}\nz",
    "{% set messages = messages[1:] %}{{ messages | length }}",
    "{% if not date_string is defined %}{% set date_string = strftime_now('%d %b %Y') %}{% endif %}{{ date_string }}",
    "{% if messages[0]['role'] == 'system' %}{% set s = messages[0]['content'] | trim %}{% set messages = messages[1:] %}{% else %}{% set s = '' %}{% endif %}{{ s }}{{ messages[0].role }}",
    "{% for m in messages recursive %}{{ m.role }}{% endfor %}",
    "{{ messages[9].role is defined }}{{ messages[9] is defined }}",
    "{{ messages[0].nothing }}|{{ nothing }}|",
    "{{ nothing.x }}",
    "{{ messages[0].nothing.x }}",
    "{{ nothing + 'a' }}",
    "{{ 'a' + 1 }}",
    "{{ 'a' + none }}",
    "{{ none.x is defined }}|{{ none.x }}",
    "{{ none | length }}",
    "{% for x in nothing %}{{ x }}{% endfor %}|",
    "{{ 1 / 0 }}",
    "{{ [1][5] }}|",
    "{{ {'a': 1}['b'] }}|",
    "{{ nothing() }}",
    "{{ 'a'.nothing() }}",
    "{{ 'a' | nothing }}",
    "{{ 'x' is nothing }}",
    "{{ messages.append(1) }}",
    "{% do messages %}",
    "{{ ''.__class__ }}|",
    "{{ raise_exception('no') }}",
    "{{ strftime_now() }}",
]


def rendered(source, chat):
    chat = {"add_generation_prompt": True, **json.loads(json.dumps(chat))}
    try:
        return utils.render_jinja_template([chat.pop("messages")], chat_template=source, **TOKENS, **chat)[0][0]
    except Exception as error:
        return None if "--why" not in sys.argv else "ERROR " + repr(error)


each = ["{{ %s }}" % line for line in EXPRESSIONS] + BLOCKS
of_turns = dict(CHATS["turns"], tools=CHATS["tools"]["tools"])
pairs = [[source, rendered(source, of_turns)] for source in each]
files = [file for folder in sys.argv[1:] if folder != "--why" for file in sorted(Path(folder).glob("*.jinja"))]
names = {file.stem: {name: rendered(file.read_bytes().decode(), chat) for name, chat in CHATS.items()} for file in files}
chats = json.dumps(CHATS, ensure_ascii=False)
print('{"made_by": "templates.py",\n"now": %d,\n"tokens": %s,\n"chats": %s,\n"expressions": [' % (1751641567, json.dumps(TOKENS), chats))
print(",\n".join(json.dumps(pair, ensure_ascii=False) for pair in pairs) + '],\n"rendered": {')
print(",\n".join("%s: %s" % (json.dumps(name), json.dumps(texts, ensure_ascii=False)) for name, texts in names.items()) + "}}")

"""Questions a user would ask of a small project memory, and how many find their answer.

The texts and questions were written for this test. A question shares few words with its answer,
in the same form or another one, and many with other texts, so that the figures fall when stems,
pairs of characters, folding, function words or weights break.
"""

import pytest
from ranked import places

from pc_store.ledger.database import open_database
from pc_store.search.tokens import query_units
from pc_store.services.administer import create_scope
from pc_store.services.find import search
from pc_store.services.remember import remember
from pc_store.settings import Settings

AMOUNT = "amount: 订单金额以整数分存储；100 表示 1 元。"

TEXTS = {
    # English
    "cents": "Order amounts are integers in cents; never store them as floats.",
    "rounding": "VAT is rounded half up on each invoice line, not on the total.",
    "currency": "Exchange rates come from the central bank once a day at 16:00 CET.",
    "retry": "Webhooks are retried five times with exponential backoff, then parked.",
    "timeout": "The payment gateway call times out after 8 seconds; do not raise it.",
    "idempotency": "Every POST to /v1/payments needs an Idempotency-Key header.",
    "deploys": "We deploy from the main branch on weekdays only, never on Fridays.",
    "rollback": "To roll back, redeploy the previous image tag; migrations are never reverted.",
    "migrations": "Alembic migrations must be backward compatible for one release.",
    "flaky": "test_refund_race fails about once in fifty runs because of a clock skew.",
    "logging": "Logs are JSON lines on stdout; personal fields are masked by log_filter.py.",
    "secrets": "Credentials live in Vault; .env files are for local development alone.",
    "cache": "Product pages are cached for ten minutes and purged on price changes.",
    "search": "The search service indexes products nightly; deletions show up at once.",
    "emails": "Receipts are sent by Postmark, newsletters by Mailchimp.",
    "pagination": "List endpoints return at most 100 items and an opaque cursor.",
    "review": "Two approvals are required for changes under billing/.",
    "python": "Services run on Python 3.11; 3.12 broke our old gRPC client.",
    "dates": "Timestamps are stored in UTC and rendered in the customer's time zone.",
    "refunds": "Refunds above 500 euros need a second person to confirm.",
    "memory": "The amount of memory a worker may use is 2 GB; what it does beyond is killed.",
    "signature": "Webhook bodies are signed; the header is X-Signature and a request may lack it.",
    "on call": "What to do on call: acknowledge, look at the dashboard, then page the owner.",
    "roles": "Who may see what is decided by roles: support, finance and admin.",
    "partners": "When a price changes, partners hear of it by e-mail a day before.",
    "office": "Where the office is: Hauptstraße 5, third floor; how to get there is on the wiki.",
    "libraries": "Why we break with old libraries: nobody sends us fixes for them.",
    # 中文
    "金额": AMOUNT,
    "发票": "电子发票在付款成功后十分钟内开具，红冲需要财务审批。",
    "汇率": "汇率每天早上九点从央行接口同步一次，周末沿用周五的值。",
    "库存": "下单时预占库存，三十分钟未支付自动释放。",
    "优惠券": "优惠券不能叠加使用，退款时不返还。",
    "导入": "导入表格出错时要带上行号，方便运营定位问题。",
    "编码": "上游给的 CSV 是 GBK 编码，读取前先转成 UTF-8。",
    "部署": "生产环境只在周二和周四发布，发布前必须通知客服。",
    "回滚": "发布失败时先切回旧版本，再查原因，数据库结构不回退。",
    "日志": "日志里不能出现手机号和身份证号，统一用脱敏函数处理。",
    "缓存": "商品详情缓存十分钟，改价后主动清除。",
    "搜索": "搜索索引每晚重建，删除的商品立即下架。",
    "权限": "客服只能查看订单，修改价格需要主管授权。",
    "测试": "提交代码之前要跑完单元测试，覆盖率不低于百分之八十。",
    "时区": "所有时间按 UTC 保存，展示时转换为用户所在时区。",
    "短信": "验证码短信走阿里云通道，营销短信走腾讯云通道。",
    "偏好": "用户喜欢简短的回答，先给结论再给理由。",
    "命名": "接口字段统一用小写加下划线，例如 order_id。",
    "评审": "合并请求至少要两个人同意，改动账务代码要三个人。",
    "备份": "数据库每六小时备份一次，保留三十天。",
    "单号": "订单编号由日期和六位流水组成，怎么生成的见文档。",
    "报价": "价格以供应商的报价为准，什么时候更新由采购决定。",
    "请假": "请假应该怎么办：先在系统里申请，再告诉组长。",
    "开会": "每周一上午十点开会，哪天放假就哪天不开。",
    "导出": "数据导出失败了怎么办：先看磁盘，再找安全组。",
    "电话": "客服电话早九点到晚九点有人接，多久回电看排队情况。",
    "文件": "文件名用日期开头，哪几个人可以改由组长说了算。",
}

QUESTIONS = [
    ("How do we store an order amount?", "cents"),
    ("Where is VAT rounded: lines or totals?", "rounding"),
    ("Which source do the exchange rates have?", "currency"),
    ("how often is a webhook retried", "retry"),
    ("what is done with an amount of an order", "cents"),
    ("does a failing webhook get parked", "retry"),
    ("is a receipt sent by us", "emails"),
    ("a rendered timestamp", "dates"),
    ("what does an indexed product look like when deleted", "search"),
    ("what is the Hauptstrasse", "office"),
    ("Can I raise the timeout for the gateway?", "timeout"),
    ("which header does a payment request need", "idempotency"),
    ("is deploying on a Friday ok", "deploys"),
    ("how to revert a migration when rolling back", "rollback"),
    ("must a migration be compatible?", "migrations"),
    ("why does test_refund_race sometimes fail", "flaky"),
    ("what masks personal data in logs", "logging"),
    ("where do credentials live locally", "secrets"),
    ("when does the product cache get purged", "cache"),
    ("who sends the newsletter?", "emails"),
    ("maximum number of items in a list endpoint", "pagination"),
    ("approval for a billing change", "review"),
    ("what did python 3.12 break", "python"),
    ("who confirms a large refund", "refunds"),
    ("amount 字段应该怎么处理？", "金额"),
    ("訂單金額怎麼存", "金额"),
    ("发票什么时候开？", "发票"),
    ("周末的汇率用哪天的？", "汇率"),
    ("没付款的订单会占库存多久", "库存"),
    ("退款以后优惠券还能退吗", "优惠券"),
    ("表格导入失败了该怎么提示", "导入"),
    ("ＣＳＶ 文件是什么编码", "编码"),
    ("生产上哪几天可以发版", "部署"),
    ("上线失败了数据库要不要回滚", "回滚"),
    ("日志如何处理身份证", "日志"),
    ("改了价格缓存怎么清", "缓存"),
    ("谁可以改价格", "权限"),
    ("为什么编号是这样的", "单号"),
    ("哪天开会", "开会"),
    ("什么时候重建索引", "搜索"),
    ("短的回答是怎么样的", "偏好"),
    ("应该怎么存时间", "时区"),
    ("發佈之前通知誰", "部署"),
    ("提交前需要跑哪些测试", "测试"),
    ("营销类短信用的是哪家的通道", "短信"),
    ("回答用户的时候先说什么", "偏好"),
    ("账务代码的合并要几个人同意", "评审"),
    ("備份保留多少天", "备份"),
]

FIRST_AT_LEAST = 45
IN_THREE_AT_LEAST = 46
"""Of 48, one below what was measured. Without stems 42 are first, without folding 44, without
Chinese function words 39, without single characters 43."""


def test_nearly_all_questions_find_their_answer_first():
    keys, texts = list(TEXTS), list(TEXTS.values())
    place_of = {}
    for question, key in QUESTIONS:
        found = [keys[place] for place in places(texts, question)]
        place_of[question] = found.index(key) + 1 if key in found else 99
    late = {question: place for question, place in place_of.items() if place > 1}
    assert len(QUESTIONS) - len(late) >= FIRST_AT_LEAST, late
    assert sum(place <= 3 for place in place_of.values()) >= IN_THREE_AT_LEAST, late


FINDS_THE_AMOUNT = [
    *("amount", "AMOUNT", "amounts", "ａｍｏｕｎｔ", "整数分", "金额", "金額", "整"),
    *("金额怎么存", "订单金额如何存储", "how is the amount stored", '"amount"', "“金额”"),
    *("amount 字段", "amount 字段应该怎么处理？", "what does “amount 字段” mean"),
]


@pytest.mark.parametrize("query", FINDS_THE_AMOUNT)
def test_what_the_articles_entry_is_found_by(query):
    assert places([AMOUNT], query) == [0]


def test_the_service_finds_it_by_the_same(new_database, tmp_path):
    db = open_database(new_database(lambda url: open_database(url).close()))
    settings = Settings(index_dir=tmp_path / "index", embed_provider="none")
    create_scope(db, "shop", now_us=1)
    remember(db, "shop", kind="decision", text=AMOUNT, now_us=2)
    for query in FINDS_THE_AMOUNT:
        hits = search(db, settings, "shop", query).hits
        assert [(hit.text, hit.score) for hit in hits] == [(AMOUNT, 1 / 61)], query
    assert search(db, settings, "shop", "how is it 如何").hits == ()
    db.close()


@pytest.mark.parametrize("query", ["how is it", "的", "应该怎么", "什么 如何", "what is the", "😀"])
def test_a_question_of_function_words_asks_for_nothing(query):
    assert query_units(query) == ()
    assert places([AMOUNT, query], query) == []

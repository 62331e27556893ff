"""Cue words: what a sentence's wording says about it, in English, Chinese and Japanese.

Belongs here: the closed table of cues, which the classifier counts as features and which give a
kept sentence its kind. Whether a sentence is kept is not decided here.
"""

import re

Cue = re.Pattern[str]


def _cue(*alternatives: str) -> Cue:
    return re.compile("|".join(alternatives), re.IGNORECASE)


CUES: dict[str, Cue] = {
    "constraint": _cue(
        r"\b(?:must|never|always|shall|should not|shouldn't|cannot|can only|may not|"
        r"not allowed)\b",
        r"\b(?:not permitted|required to|restricted to|limited to|forbidden|mandatory|"
        r"is required)\b",
        r"\b(?:at most|at least|no more than|maximum|minimum|max|limit|without approval|"
        r"only the)\b",
        r"\b(?:has to|have to|needs? to be|budget|backward compatible|before (?:any|"
        r"the) release)\b",
        r"(?:^\W*|[,;:] |please |whatever you do |u |we |you )(?:do not|don'?t|can'?t|can not|"
        r"no new)\b",
        r"^\W*(?:every|each|no|all) \w+",
        r"必须|禁止|不得|不能|不许|不准|一律|不要|务必|不允许|最多|最少|不超过|上限|下限|只能|"
        r"千万",
        r"绝对不|无权|仅限|(?<!必)须|控制在|别动|至少|以内|不可(?!能)|得留着|[^这那]每[个张次条]",
        r"てはいけない|ないこと|すること|必要がある|必ず|まで。|禁止|しない。",
    ),
    "preference": _cue(
        r"\bi (?:\w+ ){0,2}(?:prefer|perfer|like|love|hate|dislike|enjoy|want you|"
        r"care (?:more )?about)",
        r"\bi'?d rather|\bi (?:don't|dont|can't) (?:\w+ )?(?:like|stand|drink|eat)\b",
        r"\b(?:user|she|he|client|customer|boss|team)\W+(?:\w+ )?(?:prefers?|likes|wants|hates|"
        r"dislikes)\b",
        r"^\W*(?:prefers?|likes?|wants?|dislikes?|hates?)\b|\bmy (?:\w+ )?(?:favou?rite|hobby|"
        r"go-to)\b",
        r"\b(?:allergic|vegetarian|vegan|is my hobby|that's how i like|annoys me|i usually|"
        r"beats)\b",
        r"\b(?:reply|answer|respond)(?: to me)? (?:in|short|with)\b|\bcalls? me\b|"
        r"\bask me before\b",
        r"我[^，。]{0,4}(?:喜欢|偏好|更愿意|讨厌|不爱|最爱|爱[吃听看喝]|希望你|习惯|倾向|看重|"
        r"不稀罕)",
        r"^(?:更?喜欢|偏好|不喜欢|吃素|讨厌)|爱好是|用户[^，。]{0,4}(?:喜欢|偏好|希望|习惯)",
        r"回答(?:尽量|要|请)|回复(?:请|尽量|要)|回我|称呼我|叫我|我只(?:喝|吃|用|要|看|坐)|"
        r"先给结论|只要 ?\w+，不要|给我看",
        r"好き|苦手|嫌い|ほしい|趣味|てください|なくていい",
    ),
    "decision": _cue(
        r"\b(?:decided|decision|agreed|chose|chosen|instead of|in favou?r of|ruled out|"
        r"resolved)\b",
        r"\b(?:switch(?:ed|ing)? (?:\w+ ){0,4}(?:to|from)|go(?:ing)? with|settled?|adopt(?:ed|"
        r"s)?)",
        r"\b(?:from now on|no longer|standardi[sz]ed?|selected|concluded|discontinued|dropp?ed)\b",
        r"\b(?:we(?:'re| are) keeping|made up my mind|confirmed|replaced? \w+ with|"
        r"now (?:uses?|is))",
        r"\b(?:rejected|picked|moves? to|final|effective)\b|^revert\b|\bwe (?:will )?use\b",
        r"决定|改用|改为|改成|采用|统一|定了|确认|换成|换为|选定|以后都|方案|不再|结论|放弃|取消",
        r"改走|替换|代替|停止支持|定为|冻结为|锁版本|想好了|为准|走(?:RRF|OIDC|SSR)|不用 ?[A-Z]",
        r"決定|変更し|進めること|終了する|採用|に統一",
    ),
    "working_note": _cue(
        r"\b(?:to-?do|not yet|yet to|still missing|remaining|remains?|blocked|unfinished|"
        r"left off)",
        r"\b(?:untested|outstanding|pending|known gap|follow-?up|next:|open:|"
        r"not (?:been )?tested)",
        r"\b(?:has not been|have not been|only been verified|remain unclear|remains unclear)\b",
        r"待办|遗留|还没(?:做|测|接|有测)|尚未|剩余|剩四个|未做|未完成|后续补|后面(?:要)?补|"
        r"还差|卡在|缺口|待审批|仍需",
        r"未测|下一步从|仍不明确|没有测试覆盖|残り|未検証|未完了|次回",
    ),
    "design": _cue(
        r"\b(?:is|are|stays?|gets?|be) (?:\w+ly )?(?:stored|kept|written|sent|generated|served|"
        r"rounded|"
        r"rotated|purged|archived|versioned|encrypted|fixed|cached|read|named|limited|capped|"
        r"locked|"
        r"released|charged|owned|maintained|restricted|expressed|separated|disabled|called|off|"
        r"on)\b",
        r"\b(?:by default|out of scope|phase (?:one|two)|per (?:\w+)|only (?:\w+ )?(?:in|on|"
        r"the|for|when|by)|"
        r"expires?|belongs? to|keyed|based|cursor|everywhere|across all|fallback|supports?)\b",
        r"\b(?:lowered|raised|reduced|cut|bumped) (?:\w+ ){0,4}(?:from|to)\b|\bnot (?:by|in|"
        r"the) \w+",
        r"从.{1,12}(?:降|提|改|调|压)到|保留|固定|默认|统一|只(?:做|在|用|支持|看|读|算|接|存|"
        r"写|有|来自)|兜底|存储|不走",
        r"优先|为单位|按[^，。钮照]{1,6}(?:存|拆|隔离|结算|计|分|算)|每(?:月|周|天|晚|季度|年|"
        r"单|次|条|页)|放(?:二期|首页|末尾)",
        r"(?:由|归).{1,8}(?:维护|保管|负责|裁定|管)|锁在|口径|共用|独立|上限|限流|有效|过期",
    ),
    "measure": _cue(
        r"\d ?(?:%|ms|s\b|mb|gb|kb|k\b|days?|hours?|minutes?|months?|years?|rows|characters|"
        r"times)",
        r"\d ?(?:毫秒|秒|分钟|小时|天|周|个月|条|元|万|次|位|页|轮|公斤|岁|年|台|张|MB|GB|KB|"
        r"ms|%)",
    ),
    "cause": _cue(
        r"\b(?:because|root cause|turns out|gotcha|due to|hence|caused by|lesson|workaround)\b",
        r"\b(?:so that|to avoid|silently|cause|owing to|led to|conflicts? with)\b",
        r"原因|根因|因为|导致|坑|原来|教训|绕行|由于|避免|以免|防止|悄悄|冲突|のせい|ため",
    ),
    "label": _cue(
        r"^\W{0,4}[\w .&/-]{2,24}[:：]\s*\S",
        r"^[^，。,.\s]{1,8}[：:]",
    ),
    "question": _cue(r"[?？]\W*$", r"(?:吗|呢|什么|怎么样|好不好)\W*$", r"か。?$"),
    "question_word": _cue(
        r"^\W*(?:what|why|how|when|where|who|which|is|are|do|does|can|could|would|should|shall)\b",
        r"^(?:为什么|怎么|谁|哪|请问|有没有|能不能|是不是|可以帮)|なぜ|何に",
    ),
    "narration": _cue(
        r"^\W*(?:(?:ok(?:ay)?|good|great|perfect|now|first|next|hmm|alright|so|then|interesting|"
        r"before that|got it|i see|since [^,]{1,80},)\W+)*(?:let me|let us|let's|i'll|i will|i'm "
        r"going to|i am going to|i need to|i should|we need to|we should|we can see|i think|"
        r"i have (?:found|located)|i've (?:found|located|updated|added)|looking at|updating|"
        r"adding)\b",
        r"^\W*(?:now|perfect|great|interesting|hmm|the next step|first,|next,|both files)\b",
        r"^(?:让我|我来|我先|我再|我去|我把|我帮|我这边|接下来|现在|先|继续|下面|好的?[，,]|"
        r"换个|正在|我跑|我打开|我做|我补|我出)",
        r"^我(?:今天|今晚|下午|上午|明天|晚点|等下|马上|现在)|^等我|^看一下|^下一步安装",
        r"^(?:では|次に|まず)|てみます|します。$",
    ),
    "moment": _cue(
        r"\b(?:today|yesterday|tonight|tomorrow|just (?!so)|right now|this (?:morning|afternoon)|"
        r"at the moment|currently|last night|these days|so far|for now|ago|in (?:five|ten) min)",
        r"今天|昨天|刚刚|刚才|今晚|正在|目前|早上|昨晚|明天|这两天|中午|临时|刚[^好性]|最近|"
        r"今日|昨日|さきほど",
    ),
    "courtesy": _cue(
        r"\b(?:thanks?|thank you|sorry|hello|hi|welcome|congrat\w*|good (?:morning|luck|job)|bye|"
        r"glad|happy to|you're welcome|no problem|got it|sounds good|of course|sure|certainly)\b",
        r"谢谢|你好|不客气|抱歉|辛苦|收到|明白了?|好的|没问题|加油|恭喜|太棒|哈哈|感谢|祝|乐意|"
        r"放心",
        r"ありがと|お疲れ|よろしく|おはよう|了解",
    ),
    "dialogue": _cue(
        r"\bi(?: would|'d) like to\b|\bi want to\b|\bunfortunately\b|\byour (?:order|booking|"
        r"reservation|"
        r"account|parcel|table|flight|room|card)\b|\bas (?:an?|your) (?:ai|assistant|virtual|"
        r"companion)\b",
        r"您|抱歉|作为(?:一个)?(?:AI|人工智能|助手)|我想(?:取消|把|改|要|订)",
    ),
    "hedge": _cue(
        r"\b(?:maybe|perhaps|might|not sure|i guess|i wonder|no idea|it depends|one option)\b",
        r"也许|可能|大概|不确定|不太确定|感觉|不清楚|看情况|我在想|我想想|回头再|再讨论|たぶん|"
        r"かも",
    ),
    "advice": _cue(
        r"\b(?:you (?:can|could|might|should|will)|try to|i suggest|i recommend|it is important|"
        r"here are|remember to|don't worry|good for|a great way|as an ai|generally speaking)\b",
        r"你可以|建议|要保持|推荐你?|有助于|帮助你|有好处|相信|不必|一般来说|循序渐进|"
        r"作为(?:人工智能|ai)|每个人",
        r"良いです|休んでください",
    ),
    "self": _cue(
        r"\b(?:my (?:name|wife|husband|son|daughter|kids?|boss|doctor|parents?|mother|father|"
        r"sister|"
        r"brother|dog|cat|user id|best friend|weight|birthday))\b",
        r"\b(?:i'm|i am|im) (?:a|an|from|allergic|learning|studying|training|[A-Z]\w+,)",
        r"\bi (?:have (?:a|two|three|one)|work (?:as|at|in)|live|moved|play|drink|run|wear|"
        r"collect|"
        r"graduated|lead|bought|only|usually)\b|\bi've (?:been (?:running|learning|living)|"
        r"lived)\b",
        r"我(?:叫|是(?!不|说|否|觉)|有[一两三个]|对|养|学|每|住|妈|爸|女儿|儿子|老板|丈夫|妻|"
        r"男朋友|女朋友|姐|哥|弟|妹|左|右|体检|身高)",
        r"我(?:性格|血压|目标|大学|收藏|的(?:名字|生日|用户)|去年|在[^，。]{2,12}(?:上班|工作|"
        r"编辑))",
        r"出身|娘が|アレルギー|私は",
    ),
    "generality": _cue(
        r"\b(?:is a (?:great|good|simple)|are (?:essential|important)|people|life|everyone|many|"
        r"not only|both sides|society|emotions?|friendship|patience|in my opinion|it helps to)\b",
        r"人生|每个人|很多人|社会|情绪|心态|放松|坚持|困难|非常(?:有趣|重要|有意义)|身心|"
        r"注意安全|避免久坐|适当",
    ),
    "feeling": _cue(
        r"\b(?:feel(?:ing)?|felt|wonderful|delicious|beautiful|nervous|worried|moved|fun|laughed|"
        r"cried|amazing|lost|exhausted|happy|sad|touching|stress(?:ed)?|bored|tired)\b",
        r"感到|感觉|开心|难过|紧张|焦虑|好吃|好看|很美|太美|疲惫|迷茫|失落|无助|舒畅|感动|累",
    ),
    "plan": _cue(
        r"\b(?:i'll|i will|i plan|i'm planning|i want to|i'd like to|we'll|i am going)\b",
        r"我(?:会|加|写|改|补|准备|打算|想|稍后|去|负责|计划|这边|同步|要给)|发群里|等会儿|再聊",
    ),
    "code_fact": _cue(
        r"\b(?:function|method|class|variable|constructor|imports?|line \d+|argument|returns?|"
        r"module|loop|the (?:file|script|folder|diff|readme|config|commit|snippet)|handler)\b",
        r"函数|方法|变量|构造|第 ?\d+ ?行|循环|目录|导入了|返回|参数|继承|关数|クラス|メソッド|"
        r"行目",
    ),
    "request": _cue(
        r"^\W*(?:please )?(?:show|fix|write|rename|give|run|send|translate|book|summarize|tell|"
        r"make|open|create|update|check|find|explain|help|can (?:you|someone))\b",
        r"^(?:帮我|帮忙|麻烦|把|给我|给这|给你|你先|请帮|大家帮|@)|发我|一下[。吧]|看下",
        r"大きくして|もらえますか",
    ),
    "outcome": _cue(
        r"\b(?:passed|failed|done|updated|completed|finished|merged|pushed|deployed|uploaded|sent|"
        r"successfully|exited|installed|is up|running|queued|restarted|checked|added|fixed)\b",
        r"完成|通过了?|好了|已经?|提了|推到|成功|失败|写完|改完|跑完|做完|上传了|更新了|没发现|"
        r"正常|修好|合并了",
        r"しました|中です|通りました",
    ),
    "report": _cue(
        r"^\W*(?:added|fixed|updated|created|implemented|spent|finished|checked|ran|sent|"
        r"pushed|merged|"
        r"rebased|uploaded|switched the|reproduced|tuned|prepared|we can see|it seems|it looks|"
        r"this looks|the (?:output|error|page|issue|binary|server|script|test|traceback|"
        r"warning))\b",
        r"^(?:已|我看|刚|问题复现|进度|数据在|环境好|切完|初步|样本|效果|指标|用时|图|这版|比)|"
        r"我(?:在改|在看|来跟)",
        r"(?:吧|呢|啊)[。！]?$|辛苦|稍等|稍后|晚点|晚些|等.{1,4}回来",
    ),
    "ended": _cue(r"了\W*$", r"[!！~～]\W*$"),
    "hearsay": _cue(
        r"^\W*(?:he|she|they|someone|somebody|some people|people|a (?:friend|colleague)[^,]{0,20}|"
        r"the (?:intern|book|article|author|authors|paper|vendor|hint)|one could|rumou?r)\b",
        r"\b(?:according to|suggest(?:ed|s)|proposed|claims?|argue[ds]?|was mentioned|floated|"
        r"rumou?r|they say|almost went|i used to|last company|turned down|for fun)\b",
        r"有人|听说|都说|据说|网上|他觉得|她觉得|提议|提过|随口|文章|作者|上家|以前觉得|"
        r"没(?:采纳|通过|人接|结论)|未予|未采纳|被否|吐槽",
    ),
    "supposing": _cue(
        r"\b(?:if we|if it were|if i|suppose|imagine|what if|had we|in a perfect|would be nice|"
        r"we (?:could|might|should)|some day|someday|one day|not decided|never mind|nvm)\b",
        r"假设|假如|如果|要是|理想情况|早点|说不定|差一点|要不|算了|是不是|能不能|要不要|"
        r"以后再|下次再|回头|再议|还没定",
    ),
    "definition": _cue(
        r"^\W*(?:an? )?[\w-]+(?: [\w-]+)? (?:is|are) (?:an? |the |very )?(?:\w+ )?(?:\w+ )?"
        r"(?:important|essential|modern|common|platform|language|invisible|complex|for a|"
        r"agreement|powerful)\b",
        r"\b(?:stands for|consists? of|in general|generally|good \w+ \w+|helps? to|needs? "
        r"(?:time|discipline))\b",
        r"是一[种个门]|就是|一般来说|通常|很重要|非常重要|讲的是|有助|能提升|可以(?:缓解|开阔)|"
        r"靠自律|要学会|都要",
    ),
    "machine": _cue(
        r"^\W*(?:error|warning|fatal|usage|traceback|assert\w*|info|npm|http|select|const|def|"
        r"return|import|epoch|exit|reading|running|installing|downloaded|collecting)\b",
        r"^\W*[A-Z]\w+(?:Error|Exception)\b|[{}<>=]=?|\(\)|^\[|\.\.\.\W*$|\w+_\w+\(",
        r"^(?:错误|警告|致命|用法|断言|已(?:下载|保存|提交|加入|连接)|正在|找不到|退出码|状态码)|……$",
    ),
    "first_person": _cue(r"^\W*(?:i|i'm|i've|i'd|i'll|my|me)\b", r"^我(?!们)|^俺"),
    "we": _cue(r"\b(?:we|our|us)\b", r"我们|咱|大家|各位|双方"),
    "you": _cue(r"\b(?:you|your)\b", r"你|您"),
    "about_user": _cue(
        r"^\W*(?:the )?(?:user|customer|client|patient|passenger|agent)s?(?:'s)?\b",
        r"^(?:该)?(?:用户|客户|病人|旅客|坐席|客服)",
    ),
    "user_acts": _cue(
        r"\b(?:user|customer|client)\W+(?:asked|said|thanked|seems|is|wants me|called)\b",
        r"用户(?:让|问|说|打|好像|表示|想让)|客户(?:问|今天|反馈|下午)",
    ),
    "unfinished": _cue(
        r"\b(?:half(?:way)?|left|missing|lacks?|stub|never (?:run|been)|not (?:started|verified|"
        r"been|signed|written|implemented|booked|the)|untouched|waiting|undecided|unsigned|"
        r"unresolved|stops? at|continue at|to go|wip|owed|is next|comes next|only headings)\b",
        r"\b(?:done|finished|graded|coded|converted|ported|translated|migrated|fixed)\b.{0,40}"
        r"(?:[,;]| to \d)|\b\w+ of (?:the )?\w+ (?:\w+ )?(?:are |is )?(?:done|fixed|closed|"
        r"signed|converted|ported)\b",
        r"没(?:做|测|跑|动|写|签|迁|压|清|补|回|看|校|编|处理|验证|开始|实现|配|订|申请|换|改)|"
        r"半|剩|还差|还缺|还欠|待|停在|做到|遗留|未(?:做|完|整改|明确|实现)|只(?:看|谈|cover|梳理|"
        r"做了|完成)|差\S{1,6}(?:版|图|部分)",
        r"未実装|未確認|残って|残り",
    ),
    "standing": _cue(
        r"\b(?:from here on|everywhere|whenever|whatever|any(?:thing|body|one)? (?:that|who|which)|"
        r"whoever|nobody|nothing|no one|none|each|every|only|until|unless|without|before|"
        r"within|not (?:even|be|by)|may (?:not|only|be|run|read)|stays?|goes? through|"
        r"in advance)\b",
        r"才能|才可|方可|凡是|谁都|没有.{1,10}(?:不|就)|之前|之内|[以之]后(?:都|只|就|再)?|不再|"
        r"以.{1,8}为准|须|要先|[都全]走|限|只给|只跟|只收|只认|不(?:存|退|放|做|上|写|改|搞|开|"
        r"给|收|许|外传|出境)",
        r"しない|のみ|必要|以内|禁止|べき|こと",
    ),
    "obstacle": _cue(
        r"\b(?:ignores?|drops?|fails?|breaks?|crash(?:es)?|leaks?|silently|expires?|caches?|"
        r"shares?d?|depends|differs?|rejects?|bounces?|strips|treats|times? out|wip(?:es|ed)|"
        r"takes? (?:\w+ ){1,3}(?:days|hours|minutes|weeks)|does not|doesn't|no longer|"
        r"accepts? only)\b",
        r"不支持|会(?:被|掉|丢|挂|崩|缓存|泄漏|忽略|静默|失败|超时)|就(?:断|挂|崩|失效|超时|死|"
        r"复位)|只认|其实|实际|对不上|依赖|共用|同一套|画反|标错|不认|用不了|上不了|时区|假的",
        r"依存|区別しない|共有|切断",
    ),
    "biography": _cue(
        r"\b(?:i|we|she|he|they)(?:'m|'ve|'re| am| have| has| are)? (?:\w+ )?(?:work|teach|grew|"
        r"live[sd]?|moved|adopted|collect|speak|study|studied|born|married|volunteer|allergic|"
        r"saving|been|together|training|don't drive)\b",
        r"\b(?:my|our) (?:\w+ )?(?:husband|wife|partner|grandma|mother|father|brother|sister|"
        r"daughter|son|dog|cat|twins|name|team|birthday|friend)\b",
        r"我(?:家|妈|爸|弟|哥|姐|妹|老公|老婆|对象|老家|儿子|女儿|腰|膝|血|们公司|是|叫|教|读|"
        r"在\S{1,8}(?:上班|工作|教|读|打鼓|长大)|没驾照|养|从 ?\d)|过敏|独生|我一个人住",
        r"飼って|住んで|教えて|引っ越し|アレルギー|弟は|娘|出身",
    ),
    "taste": _cue(
        r"\b(?:prefers?|favou?rite|can't stand|hates?|dislikes?|into|rather|wants?|likes?|enjoys?|"
        r"more than|instead of (?:bullets|word)|with me|for me|to me|in my (?:code|documents))\b",
        r"喜欢|偏好|讨厌|受不了|不爱|最爱|爱[看吃喝逛听]|习惯|更愿意|希望|只要|不要|别给我|回我|"
        r"跟我|给我|对我|我就想|没兴趣|心里没底|看着累|看着顺|迷",
        r"好き|好み|苦手|ほしい|のほうがいい",
    ),
    "long": _cue(r"^.{60}", r"^(?=.*[\u3040-\u9fff].*).{25}"),
    "longer": _cue(r"^.{110}", r"^(?=.*[\u3040-\u9fff].*).{45}"),
    "short": _cue(r"^.{0,9}$", r"^[ -~]{0,24}$"),
    "cjk": _cue(r"[\u4e00-\u9fff]"),
    "lower": _cue(r"^[a-z]"),
    "no_stop": _cue(r"[^.。!！?？]$"),
    "particle": _cue(r"[吧呢啊哈呀嘛哦啦呗嘞么～~]\W*$", r"哈哈|lol|haha|嘿嘿|笑|无语|烦"),
    "progressive": _cue(
        r"^\W*(?:[a-z]+ing|still|just|back|trying|waiting)\b|\bi'm (?:\w+ )?\w+ing\b",
        r"^(?:在|正|又|还在|先|刚)|一下|看看|试试|等",
        r"ています|てみ|中です",
    ),
    "past": _cue(
        r"^\W*(?:i|we|he|she|it|they|the \w+) (?:\w+ly )?\w+ed\b|\b(?:was|were|did|went|had|"
        r"came|found|took|got)\b",
        r"[^为成到]了[，。]|过了|完了|昨",
        r"ました|した。",
    ),
    "thing_is": _cue(
        r"^\W*(?:the|our|their|this|all|any|a|an) (?:[\w-]+ ){1,5}(?:is|are|has|have|needs?|goes|"
        r"go|runs?|uses?|can|cannot|gets?|lands?|holds?|expires?|takes?|counts?)\b",
    ),
    "figure": _cue(r"\d"),
}
"""By name. All are searched anywhere unless the pattern anchors itself."""

_LABELS: tuple[tuple[str, Cue], ...] = (
    ("decision", _cue(r"^\W*(?:decision|decided|agreed|final|决定|结论|最终方案|決定)\W*[:：]")),
    ("constraint", _cue(r"^\W*(?:rule|policy|constraint|convention|约束|规则|规范|约定)\W*[:：]")),
    ("preference", _cue(r"^\W*(?:preferences?|偏好)\W*[:：]")),
    (
        "working_note",
        _cue(
            r"^\W*(?:todo|to-do|open|next|remaining|待办|遗留|剩余工作|"
            r"残り)\W*[:：]"
        ),
    ),
    ("fact", _cue(r"^\W*(?:fact|cause|note|gotcha|lesson|原因|根因|坑|教训|备注|事实)\W*[:：]")),
)

_KIND_CUES = ("working_note", "preference", "decision", "constraint")

_CHANGE = _cue(
    r"\b(?:now|no longer|instead|switch\w*|from now on|change[ds]?|any ?more|replaced?|"
    r"moved? to)\b",
    r"\b(?:raised?|lowered|reduced|increased|extended|shortened|updated to|rather than before)\b",
    r"改[用为成]|换成|换为|调整|不再|由.{1,12}[改变]|从.{1,12}改|变更|除了|取消|升级|搬到|仍然|"
    r"现在是",
    r"に変更|今後は|代わりに",
)


def count_cues(sentence: str) -> dict[str, bool]:
    """Which cues the sentence has, by name, in the table's order."""
    return {name: bool(pattern.search(sentence)) for name, pattern in CUES.items()}


def label_of(sentence: str) -> tuple[str, str] | None:
    """The kind that a leading label ("Decision:") declares, and the label."""
    for kind, pattern in _LABELS:
        found = pattern.search(sentence)
        if found:
            return kind, found[0].strip()
    return None


def cue_of(kind: str, sentence: str) -> str | None:
    """The words of the sentence that speak for the kind, shortened, or None."""
    found = CUES[kind].search(sentence) if kind in CUES else None
    return " ".join(found[0].split())[:40] if found else None


def may_be_durable(sentence: str) -> bool:
    """Whether a cue of a kind is there: a cheap guess, for choosing what to judge at all."""
    return any(CUES[kind].search(sentence) for kind in _KIND_CUES)


def changes_something(sentence: str) -> bool:
    """Whether the sentence has words of change, as one that replaces a rule has."""
    return bool(_CHANGE.search(sentence))
